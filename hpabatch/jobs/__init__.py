"""Jobs: work in tasks, which is resumed, and done by this process, by others or by Dask workers.

::

    loop, folder              tasks of a job, and the folder that keeps the parts they leave
    orders                    what travels to a worker
    executor, dispatch        who does the tasks; which worker gets which, and what if one dies
    worker, processes         a worker process; those beside this one
    dask_workers, contact     those of a Dask scheduler; whether there is one at an address
    parts_place               parts in an object storage, for workers of other machines
    replay, sweep, advise, fit, fidelity, quality, capacity, table
                              a use case each: its tasks, its parts, and what becomes of them
    frames, replay_parts, sweep_files, sweep_trajectories
                              parts and results of several use cases
    publish, joining, parquet, thrift
                              results as files
"""
