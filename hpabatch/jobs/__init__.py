"""Jobs: work in tasks, which is resumed, and done by this process, by others or by Dask workers.

::

    loop, folder              tasks of a job, and the folder that keeps the parts they leave
    orders                    what travels to a worker
    executor, dispatch        tasks done here or by workers; the task of each worker, and faults
    worker, processes         a worker process; those beside this one
    dask_workers, contact     those of a Dask scheduler; the check of its address
    parts_place               parts in an object storage, for workers of other machines
    replay, sweep, advise, fit, fidelity, quality, capacity, table
                              a use case each: its tasks, its parts, its result
    frames, replay_parts, sweep_files, sweep_trajectories
                              parts and results of several use cases
    publish, joining, parquet, thrift
                              results as files
"""
