"""Seeded random inputs in golden JSON form; the same seed always gives the same JSON.

``calculator_case`` draws one calculator case, ``timeline`` a whole sequence with pods,
``behavior_timeline`` a cheap one with external metrics only and many edits of the behavior,
``group_timeline`` one with several HPAs.

Beyond the golden form a timeline drawn with ``extended`` may have, and the reference takes always:

* in ``flags``: ``feature_gates`` (name to bool): then the version's gates with these overrides are
  in force, and ``hpa_scale_to_zero`` is not looked at
* in ``hpa.metadata``: ``generation``
* in a tick: ``set_metrics`` (the new ``spec.metrics`` after defaulting; ``metrics`` of this tick
  are the answers to them), ``set_generation``, ``status_update_error`` (UpdateStatus fails with
  this text, so that the HPA keeps its old status)
* in a pod: ``labels``; such a pod counts only if the scale's selector matches them

A group timeline is several HPAs of one namespace under one controller:
``{"id","tags","flags","hpas":[...],"containers","init_containers","ticks":[...]}``

* ``hpas``: those that exist at the start: ``{"name","selector","hpa"}``; ``hpa`` as in a timeline,
  ``selector`` is that of its scale unless a record says otherwise
* tick: ``now``; ``restart``: a fresh controller; ``delete``: names of HPAs that are deleted before
  this tick, ``create``: HPAs (as in ``hpas``) that are created after that, also under the name of
  a deleted one; ``pods``: all pods of the namespace, with labels; ``hpas``: the syncs of this tick
  in their order, one record each, not necessarily of all HPAs
* record: ``name``, and what a tick of a timeline has for one HPA: ``spec_replicas,
  status_replicas, metrics, selector, scale_get_error, scale_update_error, set_*`` ...;
  ``deleted_during_sync``: the HPA is deleted after the controller has taken its copy. A record of
  an HPA that does not exist is the sync that finds it gone, which ends the controller's memory of
  it: an HPA that is created again before that sync finds its old recommendations and scale events
* ``expected[i][k]`` (if any): what ``ticks[i].hpas[k]`` comes to, in the form of a timeline's tick;
  null for a sync that found its HPA gone
"""

from __future__ import annotations

from .generate_cases import calculator_case
from .generate_groups import group_timeline
from .generate_timelines import behavior_timeline, timeline

__all__ = ["behavior_timeline", "calculator_case", "group_timeline", "timeline"]
