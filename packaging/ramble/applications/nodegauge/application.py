# nodegauge for Ramble: ramble repo add packaging/ramble

import os

from ramble.appkit import *
from ramble.expander import Expander

# One field of a line of CSV, and the comma after it. A field with commas is in quotation marks.
FIELD = r'(?:"(?:[^"]|"")*"|[^,"]*),'
# Numbers of columns of CSV, from 0. New columns follow these.
COLUMNS = {"id": 0, "gauge": 3, "value": 7, "n": 8, "status": 15, "message_bytes": 31, "file_bytes": 33}
COLUMNS.update({"device_share": 35, "cache": 46})
NUMBER = r"[0-9][0-9.eE+-]*"


def fields(first, following):
    """Returns the expression for the fields from one column up to another one, which does not belong to them."""
    return FIELD * (COLUMNS[following] - COLUMNS[first])


class Nodegauge(ExecutableApplication):
    """nodegauge measures what a compute node sustains: memory bandwidth (STREAM), floating point (HPL), messages and
    files. One process per node; it chooses threads, pages, stores and loops by measurement."""

    name = "nodegauge"

    tags("benchmark-app", "mini-app", "memory-benchmark", "single-node")

    software_spec("nodegauge", pkg_spec="nodegauge", package_manager="spack*")
    required_package("nodegauge", package_manager="spack*")

    for command in ("stream", "hpl", "io", "run"):
        # Figures of an earlier run are not those of this experiment.
        executable(
            command,
            [
                "rm -f {experiment_run_dir}/figures.csv",
                "{nodegauge_path}/bin/nodegauge " + command + " --budget {budget} --no-save"
                " --label experiment={experiment_name} --csv {experiment_run_dir}/figures.csv {options}",
            ],
            use_mpi=False,
            output_capture=OUTPUT_CAPTURE.ALL,
        )
        workload(command, executable=command)

    workload_variable(
        "budget",
        default="30",
        description="Time of a run in seconds, with set-up and checks",
        workloads=["stream", "hpl", "io", "run"],
    )
    workload_variable(
        "options",
        default="--color never",
        description="Further options of the command",
        workloads=["stream", "hpl", "io", "run"],
    )

    run_folder = Expander.expansion_str("experiment_run_dir")
    log_file = os.path.join(run_folder, Expander.expansion_str("experiment_name") + ".out")
    csv_file = os.path.join(run_folder, "figures.csv")

    # Line of the table: kernel, best, median, quantiles.
    for kernel in ("copy", "scale", "add", "triad"):
        for place, statistic in enumerate(("best", "median")):
            figure_of_merit(
                f"{kernel} {statistic}",
                log_file=log_file,
                fom_regex=rf"^{kernel}" + r"\s+[0-9.]+" * place + rf"\s+(?P<{kernel}_{statistic}>[0-9.]+)",
                group_name=f"{kernel}_{statistic}",
                units="GB/s",
            )
    figure_of_merit(
        "rating",
        log_file=log_file,
        fom_regex=r"^rating\s+(?P<rating>[0-9.]+)",
        group_name="rating",
        units="GFLOP/s",
    )

    # Files for each operation, size of the file and of blocks; messages for each size.
    figure_of_merit(
        "{operation} {cache} file {file_bytes} block {block_bytes}",
        log_file=csv_file,
        fom_regex=fields("id", "gauge")
        + rf"files,io,(?P<operation>[^,]+),B/s,(?P<rate>{NUMBER}),"
        + fields("n", "file_bytes")
        + r"(?P<file_bytes>\d+),(?P<block_bytes>\d+),"
        + fields("device_share", "cache")
        + r"(?P<cache>\w+),",
        group_name="rate",
        units="B/s",
    )
    for unit, quantity in (("s", "time"), ("B/s", "rate")):
        figure_of_merit(
            "{name} message {message_bytes} " + quantity,
            log_file=csv_file,
            fom_regex=fields("id", "gauge")
            + rf"messages,[^,]+,(?P<name>[^,]+),{unit},(?P<{quantity}>{NUMBER}),"
            + fields("n", "message_bytes")
            + r"(?P<message_bytes>\d+),",
            group_name=quantity,
            units=unit,
        )

    # An invalid figure has no number.
    before_value = fields("id", "value")
    success_criteria(
        "has a figure",
        mode="string",
        match=before_value + NUMBER + "," + fields("n", "status") + r"(?:valid|suspect),",
        file=csv_file,
    )
    success_criteria(
        "no figure is invalid",
        mode="string",
        anti_match=before_value + FIELD + fields("n", "status") + r"invalid,",
        file=csv_file,
    )
