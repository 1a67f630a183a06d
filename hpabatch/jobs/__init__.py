"""Jobs: work in tasks, which is resumed, and done by this process, by others or by Dask workers.

::

    job, folder               tasks of a job, and the folder that keeps the parts they leave
    executor                  tasks done here or by workers; the task of each worker, and faults
    worker, processes         a worker process; those beside this one
    dask_workers              those of a Dask scheduler
    parts_place               parts in an object storage, for workers of other machines
    replay, sweep, advise, fit, fidelity, quality, capacity, table
                              a use case each: its tasks, its parts, its result
    frames, sweep_files
                              parts of several use cases, files of a sweep
    publish, joining, parquet, thrift
                              results as files
"""
