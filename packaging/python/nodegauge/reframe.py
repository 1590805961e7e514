"""Checks for ReFrame 4 in the form of its test library: nodegauge measures, ReFrame stores the figures and compares them
against references. A site derives its own checks:

    import reframe as rfm
    from nodegauge.reframe import nodegauge_stream

    @rfm.simple_test
    class stream(nodegauge_stream):
        valid_systems = ['mysystem:compute']
        valid_prog_environs = ['builtin']
        reference = {'mysystem:compute': {'triad': (380.0, -0.05, None, 'GB/s')}}

    reframe -c site.py -r -S stream.options=--threads,64,--bind,spread

A performance variable has the name of the figure and its sizes, e.g. `triad`, `latency_8_same_node`. If figures of a run
have the same name, the settings in which they differ follow: `triad_n01`, `copy_threads_2_regular`.
"""

import json
import os

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ

from ._names import names_of

# Name and factor here, by unit in nodegauge.
UNITS = {'B/s': ('GB/s', 1e9), 'FLOP/s': ('GFLOP/s', 1e9), 's': ('us', 1e-6)}


class nodegauge_benchmark(rfm.RunOnlyRegressionTest):
    """Runs a command of nodegauge; every figure is a performance variable.

    The program is `nodegauge` on PATH: that of the package of this module, of a module (`modules`), or of the site
    (`executable`).
    """

    #: Command of nodegauge.
    command = variable(str)
    #: Options of the command.
    options = variable(typ.List[str], value=[])
    executable = 'nodegauge'

    @run_before('run')
    def ask_for_the_record(self):
        # Options and commands of a derived class stay. Words after `--` are a command of the user.
        words = [self.command, *self.options, *self.executable_opts]
        end = words.index('--') if '--' in words else len(words)
        self.executable_opts = [*words[:end], '--no-save', '--json', 'record.json', *words[end:]]
        # Schedulers without accounting report no exit code.
        self.postrun_cmds = ['echo $? > exit_code', *self.postrun_cmds]

    def figures(self):
        with open(os.path.join(self.stagedir, 'record.json')) as record:
            measured = json.load(record)['measurements']
        # The record also contains published figures of other nodes.
        return [m for m in measured if m['config'].get('engine') != 'published']

    @sanity_function
    def measured_and_valid(self):
        # 1 is an invalid figure or an --expect that is not met, 2 wrong options, 3 something missing.
        code = sn.extractsingle(r'(\d+)', os.path.join(self.stagedir, 'exit_code'), 1, int)
        sn.evaluate(sn.assert_eq(code, 0))
        return sn.assert_true(self.figures(), msg='nothing was measured')

    @run_before('performance')
    def take_the_figures(self):
        figures = self.figures()
        for name, m in zip(names_of(figures), figures):
            if m['value'] is None:
                continue
            unit, worth = UNITS.get(m['unit'], (m['unit'], 1.0))
            self.perf_variables[name] = sn.make_performance_function(sn.defer(m['value'] / worth), unit)


class nodegauge_run(nodegauge_benchmark):
    """All measurements of nodegauge."""

    command = 'run'


class nodegauge_stream(nodegauge_benchmark):
    """STREAM."""

    command = 'stream'


class nodegauge_hpl(nodegauge_benchmark):
    """HPL."""

    command = 'hpl'


class nodegauge_mpi(nodegauge_benchmark):
    """Messages."""

    command = 'mpi'


class nodegauge_io(nodegauge_benchmark):
    """Files."""

    command = 'io'
