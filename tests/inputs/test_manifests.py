"""Manifests: files, folders, stdin, lists, lines, templates, and everything that is none."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from hpabatch.inputs import manifests
from hpabatch.inputs.manifests import (
    REFUSED,
    UNREADABLE,
    VALID,
    CheckedEntry,
    Manifests,
    check_manifests,
    exit_code,
    load_manifests,
)
from hpabatch.model.versions import PROFILES

HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {name}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: {kind}, name: web}}
  maxReplicas: 10
"""


def hpa(name: str = "web", kind: str = "Deployment") -> str:
    return HPA.format(name=name, kind=kind)


def _stdin(text: str | bytes) -> Manifests:
    data = text.encode() if isinstance(text, str) else text
    return load_manifests(["-"], io.BytesIO(data))


def _error(text: str | bytes) -> str:
    (entry,) = _stdin(text).entries
    assert entry.error is not None
    assert entry.hpa is None
    return entry.error


def _names(found: Manifests) -> list[tuple[str, int]]:
    return [(entry.hpa.name if entry.hpa else f"! {entry.error}", entry.line)
            for entry in found.entries]  # fmt: skip


# ---- documents ----------------------------------------------------------------------------------


def test_several_documents_with_their_lines() -> None:
    text = f"# first\n{hpa('a')}---\nkind: Deployment\n--- # c\n\n{hpa('b')}...\n---\n{hpa('c')}"
    found = _stdin(text)
    assert _names(found) == [("a", 2), ("b", 13), ("c", 22)]
    assert found.skipped == {"Deployment": 1}
    assert [entry.place for entry in found.entries] == ["stdin:2", "stdin:13", "stdin:22"]


@pytest.mark.parametrize("text", [
    hpa().replace("\n", "\r\n"), "\ufeff" + hpa(), "%YAML 1.1\n---\n" + hpa(), hpa() + "---\n",
    "---\n---\n" + hpa(), "--- {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler,"
    " metadata: {name: web}}\n",
])  # fmt: skip
def test_forms_of_one_document(text: str) -> None:
    assert [name for name, _ in _names(_stdin(text))] == ["web"]


def test_json_and_json_streams() -> None:
    document = {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {"a": "\U0001f600"}}, "spec": {},
    }  # fmt: skip
    text = json.dumps(document)  # with a surrogate pair, which YAML has not
    assert _names(_stdin(text)) == [("web", 1)]
    assert _names(_stdin(f"{text}\n{text}\n")) == [("web", 1), ("web", 1)]
    assert _names(_stdin(json.dumps(document, indent="\t"))) == [("web", 1)]
    assert (
        _error('{"a": 1,}x')
        == "not YAML: did not find expected <document start> (line 1, column 10)"
    )


def test_lists_are_taken_apart() -> None:
    item = "\n  ".join(hpa("a").splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n- {item}\n- kind: Service\n- {item}\n"
    found = _stdin(text)
    assert _names(found) == [("a", 4), ("a", 12)]
    assert found.skipped == {"Service": 1}


def test_items_of_an_hpa_list_inherit_their_kind() -> None:
    text = (
        "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscalerList\n"
        "items:\n- metadata: {name: a}\n- metadata: {name: b}\n  kind: Deployment\n- 5\n"
    )
    found = _stdin(text)
    assert _names(found) == [("a", 4), ("! item 3 of the list is not a mapping: 5", 1)]
    assert found.entries[0].hpa is not None
    assert found.entries[0].hpa.api_version == "autoscaling/v1"
    assert found.skipped == {"Deployment": 1}


def test_an_empty_list_is_no_error() -> None:
    found = _stdin("apiVersion: v1\nkind: List\nitems: []\n")
    assert (found.entries, found.skipped) == ([], {"empty list": 1})


def test_a_top_level_sequence_is_a_list() -> None:
    item = "\n  ".join(hpa("a").splitlines())
    assert _names(_stdin(f"- {item}\n")) == [("a", 1)]


def test_of_items_given_twice_the_last_count() -> None:
    text = "kind: List\nitems: []\nitems:\n- {kind: A}\n- {apiVersion: autoscaling/v2}\n"
    found = _stdin(text)
    assert (_names(found), found.skipped) == ([("", 5)], {"A": 1})


def test_a_list_in_json_that_yaml_cannot_read() -> None:
    item = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": [],
            "spec": {"metrics": [{"type": "\U0001f600"}, 5]}}  # fmt: skip
    found = _stdin(json.dumps({"kind": "List", "items": [item, item]}))
    assert _names(found) == [("", 1), ("", 1)]


def test_lists_inside_lists_end_somewhere() -> None:
    text = "{kind: List, items: [" * 20 + "]}" * 20
    assert "lists inside lists" in _error(text)


def test_other_kinds_are_counted() -> None:
    found = _stdin("a: 1\n---\nkind: Deployment\n---\nkind: 5\n---\nkind: DeploymentList\nitems: 5")
    assert found.entries == []
    assert found.skipped == {"(no kind)": 2, "Deployment": 1, "DeploymentList": 1}


def test_a_document_of_an_autoscaling_version_without_kind_is_an_hpa() -> None:
    assert _names(_stdin("apiVersion: autoscaling/v2\nmetadata: {name: a}")) == [("a", 1)]


def test_duplicate_keys_belong_to_their_document() -> None:
    text = f"a: A\na: B\n---\n{hpa('a')}  maxReplicas: 11\n---\n{hpa('b')}"
    first, second = _stdin(text).entries
    assert first.duplicates == (
        'duplicate key "maxReplicas" in line 11, column 3 (first in line 10): the last one counts',
    )
    assert second.duplicates == ()


def test_files_that_were_joined_without_a_separator_are_told() -> None:
    joined, last = _stdin(f"{hpa('a')}{hpa('b')}---\n{hpa('c')}").entries
    line = hpa("a").count("\n") + 1
    assert joined.hpa is None
    assert joined.error is not None
    assert joined.error.endswith(f"stands twice: documents are separated by --- (line {line})")
    assert last.hpa is not None


# ---- what cannot be read ------------------------------------------------------------------------


def test_one_bad_document_does_not_stop_the_rest() -> None:
    found = _stdin(f"{hpa('a')}---\na: [1\n---\n{hpa('b')}---\njust text\n---\n5\n")
    assert _names(found) == [
        ("a", 1),
        ("! not YAML: did not find expected ',' or ']' (line 10, column 1)", 10),
        ("b", 11),
        ("! not a manifest: expected a mapping, found only text (line 19)", 19),
        ("! not a manifest: expected a mapping, found only a number or a boolean (line 21)", 21),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "standard input holds no document: it is empty or all comments"),
        (b"null\n", "standard input holds no document: it is empty or all comments"),
        (b"# nothing\n\n", "standard input holds no document: it is empty or all comments"),
        (b"a: caf\xe9\n", "not UTF-8 text: byte 0xe9 in line 1"),
        (b"\x7fELF\0\0", "not YAML: a binary file (it holds NUL bytes)"),
        (b"a:\n\tb: 1\n", "not YAML: found character that cannot start any token: indent with "
                         "spaces, not tabs (line 2, column 1)"),
        (b"a: {% if x %}\n", "not YAML: found character that cannot start any token: looks like "
                             "an unrendered Jinja template, render it first (line 1, column 5)"),
        (b"a: \x01\n", "not YAML: control characters are not allowed (line 1)"),
        (b"a: &x [*x]\n", "refused: an anchor contains an alias of itself (line 1)"),
        (b"a: *nope\n", "not YAML: found undefined alias (line 1, column 4)"),
        (b"x:\n  " + b"[" * 1000, "refused: nested deeper than 200 levels (line 2)"),
        (b"? [a]\n: b\n", "not YAML: a key is neither text nor number (line 1, column 3)"),
    ],
)  # fmt: skip
def test_unreadable_text(text: bytes, error: str) -> None:
    assert _error(text) == error


# ---- templates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{- if .Values.x }}\na: 1\n{{- end }}\n", "line 1: `{{- if .Values.x }}`"),
        ("# {{ comment }}\na: {{ .Values.x }}\n", "line 2: `{{ .Values.x }}`"),
        (hpa('"{{ .Values.name }}"'), "line 4: `{{ .Values.name }}`"),
        (f"a: b\n---\n{hpa('x')}  minReplicas: '{{{{ .Values.min }}}}'\n",
         "line 10: `{{ .Values.min }}`"),
        ("a: {{ " + "x" * 100 + " }}\n", "line 1: `{{ " + "x" * 56 + "…`"),
        ("a: {{ b\n", "line 1: `{{ b`"),
        # the template hides behind an escape, so the text shows none
        (hpa('"\\x7b{ x }}"'), "line 1: `{{ … }}`"),
    ],
)  # fmt: skip
def test_an_unrendered_template_is_one_clear_error(text: str, shown: str) -> None:
    assert _error(text) == (
        f"looks like an unrendered Helm template ({shown}); render it first with `helm template`"
    )


def test_a_template_of_many_documents_is_told_once() -> None:
    found = _stdin(f"{{{{ a }}}}\n---\n{{{{ b }}}}\n---\n{hpa('a')}---\n{{{{ c }}}}\n")
    assert [entry.error is None for entry in found.entries] == [False, True]


def test_an_openshift_parameter_is_no_helm_template() -> None:
    (entry,) = _stdin(f"{hpa()}  minReplicas: ${{{{MIN}}}}\n").entries
    assert [str(problem) for problem in entry.problems] == [
        'spec.minReplicas: Invalid value: "${{MIN}}": must be an integer (int32)'
    ]


def test_templates_elsewhere_are_none_of_our_business() -> None:
    text = hpa().replace("  name: web\n", "  name: web\n  annotations: {a: '{{ x }}'}\n", 1)
    assert _names(_stdin(text)) == [("web", 1)]


# ---- files and folders --------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "z.yaml").write_text(hpa("z"))
    (tmp_path / "b" / "a.YML").write_text(hpa("a"))
    (tmp_path / "b" / "c.json").write_text("{}")
    (tmp_path / "b" / ".hidden.yaml").write_text("a: [")
    (tmp_path / ".git" / "x.yaml").write_text("a: [")
    (tmp_path / "README.md").write_text("a: [")
    (tmp_path / "empty.yaml").write_text("")
    return tmp_path


def test_folders_are_read_recursively_and_in_order(tree: Path) -> None:
    found = load_manifests([tree])
    assert [(entry.source, entry.line) for entry in found.entries] == [
        (str(tree / "z.yaml"), 1), (str(tree / "b" / "a.YML"), 1)
    ]  # fmt: skip
    assert found.skipped == {"(no kind)": 1}
    assert found.files == 4


def test_a_named_file_needs_no_suffix(tmp_path: Path) -> None:
    (tmp_path / "web").write_text(hpa())
    assert _names(load_manifests([str(tmp_path / "web")])) == [("web", 1)]


def test_a_named_file_without_documents_is_an_error(tree: Path) -> None:
    (entry,) = load_manifests([tree / "empty.yaml"]).entries
    assert entry.error == "this file holds no document: it is empty or all comments"


def test_a_folder_without_manifests_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a")
    (entry,) = load_manifests([tmp_path]).entries
    assert entry.error == "this folder holds no manifest (.yaml, .yml, .json): name another"


def test_missing_dangling_and_impossible_files(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    found = load_manifests([tmp_path, tmp_path / "no.yaml", "a\0b", "x" * 5000])
    assert [entry.error for entry in found.entries] == [
        "cannot be read: no such file or directory",
        "cannot be read: no such file or directory",
        "cannot be read: embedded null byte",
        "cannot be read: file name too long",
    ]


def test_links_to_folders_end(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(hpa("a"))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert _names(load_manifests([tmp_path])) == [("a", 1)]


def test_pipes_in_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (entry,) = load_manifests([tmp_path]).entries
    assert entry.error == "cannot be read: expected a regular file, got a named pipe"


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(hpa())

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(os, "open", refuse)
    (entry,) = load_manifests([tmp_path / "a.yaml"]).entries
    assert entry.error == "cannot be read: permission denied"
    monkeypatch.setattr(os, "scandir", refuse)
    (entry,) = load_manifests([tmp_path]).entries
    assert entry.error == "cannot be read: permission denied"
    monkeypatch.setattr(Path, "is_dir", refuse)
    (entry,) = load_manifests([tmp_path]).entries
    assert entry.error == "cannot be read: permission denied"


def test_a_huge_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_BYTES", 2**20)
    assert _error(b"#" * (2**20 + 1)) == "larger than 1 MiB: split it"


def test_stdin_is_read_once() -> None:
    found = load_manifests(["-", "-"], io.BytesIO(hpa().encode()))
    assert _names(found) == [
        ("web", 1), ("! standard input was read already: give `-` once", 1)
    ]  # fmt: skip


# ---- checks -------------------------------------------------------------------------------------


def _check(text: str, strict: bool = False, k8s: str = "1.38") -> list[CheckedEntry]:
    return check_manifests(_stdin(text).entries, PROFILES[k8s], strict)


def test_results_and_exit_codes() -> None:
    valid, refused, unreadable = hpa(), hpa("Web"), "a: ["
    checked = _check(f"{valid}---\n{refused}---\n{unreadable}")
    assert [item.result for item in checked] == [VALID, REFUSED, UNREADABLE]
    assert checked[0].hpa is not None
    assert checked[0].hpa.spec.min_replicas == 1
    assert checked[1].hpa is None
    assert [exit_code(checked[:size]) for size in (0, 1, 2, 3)] == [0, 0, 3, 2]


def test_wrong_types_are_refused_before_validation() -> None:
    (item,) = _check(hpa("Web") + "  minReplicas: x\n")
    assert item.complaints == ('spec.minReplicas: Invalid value: "x": must be an integer (int32)',)


def test_warnings_become_complaints_when_strict() -> None:
    text = f"{hpa()}---\n{hpa('web', 'DaemonSet')}  maxReplicas: 11\n  extra: 1\n"
    first, second = _check(text)
    assert (first.result, first.warnings) == (VALID, ())
    assert second.result == VALID
    assert second.warnings == (
        "spec.extra: unknown field, ignored",
        'duplicate key "maxReplicas" in line 16, column 3 (first in line 15): the last one counts',
        "metadata.name: this HPA is given twice, first at stdin:1",
        "spec.scaleTargetRef.kind: a DaemonSet cannot be scaled, it has no scale subresource",
    )
    first, second = _check(text, strict=True)
    assert (first.result, second.result) == (VALID, REFUSED)
    assert len(second.complaints) == 4
    assert second.warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "k8s", "told"),
    [
        ("autoscaling/v2", "autoscaling/v2beta1", "1.25", "HorizontalPodAutoscaler is not served"),
        ("autoscaling/v2", "autoscaling/v2beta2", "1.26", "the server refuses it"),
        ("autoscaling/v2", "autoscaling/v2beta2", "1.25", ""),
        ("apps/v1", "extensions/v1beta1", "1.37", "since Kubernetes 1.16: the HPA fails"),
        ("apps/v1", "apps/v1beta2", "1.37", ""),
    ],
)
def test_versions_that_are_no_longer_served_are_told(
    old: str, new: str, k8s: str, told: str
) -> None:
    text = hpa().replace(f"apiVersion: {old}", f"apiVersion: {new}")
    assert new in text
    (item,) = check_manifests(_stdin(text).entries, PROFILES[k8s])
    warnings = [one for one in item.warnings if "not served" in one]
    assert len(warnings) == bool(told)
    assert told in "".join(warnings)


SCALED = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: jobs}
spec:
  scaleTargetRef: {name: web}
  minReplicaCount: 0
  maxReplicaCount: 4
  triggers: [{type: cron, metadata: {desiredReplicas: "3"}}]
  advanced:
    horizontalPodAutoscalerConfig:
      behavior: {scaleDown: {stabilizationWindowSeconds: 300}}
"""


def test_a_scaled_object_is_told_in_its_own_fields() -> None:
    (item,) = _check(SCALED, strict=True)
    assert item.result == VALID
    assert item.warnings == (
        "spec.minReplicaCount: KEDA itself decides between 0 and 1 (activation, cooldownPeriod); "
        "the range of the HPA is 1-4",
    )
    (item,) = _check(SCALED.replace("maxReplicaCount: 4", "maxReplicaCount: 0"))
    assert item.complaints[0] == (
        "ScaledObject jobs: spec.maxReplicaCount: Invalid value: 0: must be greater than 0"
    )
    assert item.complaints[1].endswith("`minReplicaCount`")
    down = "ScaledObject jobs: spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown."
    (item,) = _check(SCALED.replace("Seconds: 300", "Seconds: 9999"))
    assert item.complaints[0].startswith(down + "stabilizationWindowSeconds: Invalid value: 9999")
    (item,) = _check(SCALED.replace("Seconds: 300", "Seconds: 300, tolerance: 200m"), k8s="1.32")
    assert item.warnings[0].startswith(down + "tolerance: unknown field")


def test_duplicates_are_per_tree_and_namespace(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "web.yaml").write_text(hpa())
    other = hpa().replace("  name: web\n", "  name: web\n  namespace: shop\n", 1)
    (tmp_path / "a" / "other.yaml").write_text(other)
    (tmp_path / "a" / "nameless.yaml").write_text(hpa("''") + "---\n" + hpa("''"))
    trees = load_manifests([tmp_path / "a", tmp_path / "b"])
    assert not any(item.warnings for item in check_manifests(trees.entries, PROFILES["1.38"]))
    tree = load_manifests([tmp_path])
    warned = [item for item in check_manifests(tree.entries, PROFILES["1.38"]) if item.warnings]
    assert len(warned) == 1
