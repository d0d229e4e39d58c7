#!/usr/bin/env python3
"""Tests ./dev on simulated machines: without apt, without root, with a missing package.

A copy of ./dev runs in a temporary folder. Stand-ins replace the programs that would change the machine.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

DEV = pathlib.Path(__file__).parent.parent / "dev"
# Programs that every machine has. All others are stand-ins or missing.
ORDINARY = ["bash", "env", "dirname", "mkdir", "cat", "tail", "id", "rm", "basename", "grep", "tee", "sort"]


def packages(purpose):
    """The Debian packages that ./dev needs for this purpose: its list PURPOSE_packages."""
    return re.search(rf"(?m)^{purpose}_packages=\((.*)\)$", DEV.read_text())[1].split()


class Dev(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a folder with spaces ")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        shutil.copy(DEV, self.root / "dev")
        for name in ORDINARY:
            (self.bin / name).symlink_to(shutil.which(name))

    def stand_in(self, name, body):
        """Creates a program that appends its command line to the file `calls`."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!{shutil.which("bash")}\nprintf "%s\\n" "{name} $*" >>"{self.root}/calls"\n{body}\n')
        path.chmod(0o755)

    def run_dev(self, *arguments, cwd="/"):
        environment = {"PATH": str(self.bin), "HOME": str(self.root)}
        run = subprocess.run([str(self.root / "dev"), *arguments], cwd=cwd, env=environment, capture_output=True,
                             text=True, stdin=subprocess.DEVNULL, check=False)
        calls = self.root / "calls"
        return run.returncode, run.stdout + run.stderr, calls.read_text() if calls.exists() else ""

    def apt(self, installed):
        self.stand_in("apt-get", "exit 0")
        self.stand_in("dpkg-query", f'case " {" ".join(installed)} " in *" ${{@: -1}} "*) echo -n installed;; *) exit 1;; esac')

    def test_without_arguments_lists_every_command(self):
        status, output, _ = self.run_dev()
        self.assertEqual(status, 0)
        for command in ["demo", "test", "test NAME", "test --all", "build", r"bench \[TASK…\]", "lanes", "format", "lint", r"python \[OPTION…\]", "fuzz SECONDS", "install PREFIX", "clean"]:
            self.assertRegex(output, rf"(?m)^\./dev {command} +\S")

    def provide_test_tools(self):
        self.apt([*packages("build"), *packages("test")])
        self.stand_in("cmake", "exit 0")
        for name in ("sed", "head"):
            (self.bin / name).symlink_to(shutil.which(name))
        (self.root / "build" / "dev" / "tests").mkdir(parents=True)

    def test_name_of_a_test_program_runs_that_program_alone(self):
        self.provide_test_tools()
        self.stand_in("ninja", "echo tests/io_test:")
        self.stand_in("io_test", 'echo "$ASAN_OPTIONS $RC_PARAMS"')
        (self.bin / "io_test").rename(self.root / "build" / "dev" / "tests" / "io_test")
        status, output, calls = self.run_dev("test", "io_test")
        self.assertEqual(status, 0, output)
        self.assertIn("cmake --build --preset dev --target io_test\n", calls)
        self.assertTrue(calls.endswith("io_test \n"), calls)
        self.assertIn("allocator_may_return_null=1 seed=", output)

    def test_refuses_other_options_of_test_before_it_installs_packages(self):
        for arguments in (["--typo"], ["io_test", "again"]):
            status, output, calls = self.run_dev("test", *arguments)
            self.assertEqual(status, 2, output)
            self.assertIn("./dev test NAME", output)
            self.assertEqual(calls, "")

    def test_failed_test_is_shown_with_the_command_that_repeats_it(self):
        self.provide_test_tools()
        failed = self.root / "build" / "dev" / "Testing" / "Temporary" / "LastTestsFailed.log"
        failed.parent.mkdir(parents=True)
        self.stand_in("ctest", f'echo "12:Casts/1.round" >"{failed}"; exit 8')
        status, output, calls = self.run_dev("test", "Casts/1.round")
        self.assertEqual(status, 1, output)
        self.assertIn(r"ctest --preset dev --no-tests=error -R Casts/1\.round", calls)
        self.assertIn("./dev test '^Casts/1.round$'", output)

    def test_anchored_name_runs_one_test(self):
        self.provide_test_tools()
        self.stand_in("ctest", "exit 0")
        status, output, calls = self.run_dev("test", "^Casts/1.round$")
        self.assertEqual(status, 0, output)
        self.assertIn("ctest --preset dev --no-tests=error -R ^Casts/1\\.round$\n", calls)

    def test_failed_test_of_a_program_is_shown_with_the_command_that_repeats_it(self):
        self.provide_test_tools()
        self.stand_in("ninja", "echo tests/io_test:")
        self.stand_in("io_test", "printf '[  FAILED  ] Port.opens (3 ms)\\n[  FAILED  ] 1 test, listed below:\\n"
                      "[  FAILED  ] Port.opens\\n'; exit 1")
        (self.bin / "io_test").rename(self.root / "build" / "dev" / "tests" / "io_test")
        status, output, _ = self.run_dev("test", "io_test")
        self.assertEqual(status, 1, output)
        self.assertEqual(output.count("build/dev/tests/io_test --gtest_filter='Port.opens'"), 1, output)
        self.assertNotIn("--gtest_filter='1'", output)

    def test_demo_states_its_duration_before_it_builds(self):
        self.apt(packages("build"))
        self.stand_in("cmake", 'echo "the build begins" >&2; mkdir -p build/release/bin; exit 1')
        status, output, _ = self.run_dev("demo")
        self.assertEqual(status, 2, output)
        self.assertLess(output.index("about 2 minutes"), output.index("the build begins"))

    def test_unknown_command_is_reported(self):
        status, output, _ = self.run_dev("nonsense")
        self.assertEqual(status, 2)
        self.assertIn("command 'nonsense' does not exist", output)

    def test_without_apt_it_lists_missing_packages_and_stops(self):
        for command in (["demo"], ["test"], ["build"], ["python"], ["lanes"], ["lint"], ["fuzz", "1"]):
            status, output, calls = self.run_dev(*command)
            self.assertEqual(status, 2, output)
            self.assertIn("this machine has no apt", output)
            self.assertIn("libexpected-dev", output)
            self.assertEqual(calls, "")

    def test_installs_missing_packages_without_prompting(self):
        self.apt([package for package in packages("build") if package != "libexpected-dev"])
        self.stand_in("id", "echo 0")
        self.stand_in("cmake", "exit 0")
        status, output, calls = self.run_dev("build")
        self.assertEqual(status, 0, output)
        install = next(line for line in calls.splitlines() if line.startswith("apt-get") and " install " in line)
        self.assertTrue(install.endswith("install -y --no-install-recommends libexpected-dev"), install)
        self.assertIn("build/release/bin/htensor", output)

    def test_lanes_build_and_run_the_examples_four_times_against_one_library(self):
        self.apt([*packages("build"), *packages("lane")])
        for name in ("cmake", "ctest", "git"):
            self.stand_in(name, "exit 0")
        status, output, calls = self.run_dev("lanes")
        self.assertEqual(status, 0, output)
        for lane in ("Host -DHT_EXAMPLE_DTYPE=F64", "Host -DHT_EXAMPLE_DTYPE=F32", "OpenCl<Cpu> -DHT_EXAMPLE_DTYPE=F32",
                     "OpenCl<Gpu> -DHT_EXAMPLE_DTYPE=F32"):
            self.assertEqual(calls.count(f"-DHT_EXAMPLE_DEVICE={lane}"), 1, calls)
        self.assertEqual(calls.count("--preset release"), 2, "configured and built once")
        self.assertEqual(calls.count("ctest --test-dir"), 4)
        self.assertTrue(calls.rstrip().endswith("git diff examples"), calls)

    def test_lanes_fail_if_a_lane_changes_the_examples(self):
        self.apt([*packages("build"), *packages("lane")])
        for name in ("cmake", "ctest"):
            self.stand_in(name, "exit 0")
        # The second call prints a change.
        self.stand_in("git", '[ ! -f changed ] || echo change; : >changed')
        status, output, _ = self.run_dev("lanes")
        self.assertEqual(status, 2, output)
        self.assertIn("a lane has changed the sources of the examples", output)

    def test_installs_nothing_when_nothing_is_missing(self):
        self.apt(packages("build"))
        self.stand_in("cmake", "exit 0")
        status, output, calls = self.run_dev("build")
        self.assertEqual(status, 0, output)
        self.assertNotIn("apt-get", calls)

    def create_benchmarks(self, *tasks):
        """Creates stand-ins for built benchmarks. The last one misses a goal."""
        self.apt([*packages("build"), *packages("bench")])
        self.stand_in("cmake", "exit 0")
        self.stand_in("python3", "exit 0")
        for task in tasks:
            (self.root / "bench" / task).mkdir(parents=True)
            program = self.root / "build" / "bench" / "bench" / f"bench_{task}"
            self.stand_in(program.name, f"exit {int(task == tasks[-1])}")
            program.parent.mkdir(parents=True, exist_ok=True)
            (self.bin / program.name).rename(program)

    def test_bench_runs_all_tasks_even_if_a_goal_is_missed(self):
        self.create_benchmarks("element_access", "open", "catalog")
        status, output, calls = self.run_dev("bench")
        self.assertEqual(status, 1, output)
        self.assertEqual([line for line in calls.splitlines() if line.startswith("bench_")],
                         ["bench_catalog ", "bench_element_access ", "bench_open "])

    def test_bench_runs_named_tasks_with_their_options(self):
        self.create_benchmarks("element_access", "open", "catalog")
        status, output, calls = self.run_dev("bench", "open", "element_access", "--smoke")
        self.assertEqual(status, 0, output)
        self.assertEqual([line for line in calls.splitlines() if line.startswith("bench_")],
                         ["bench_open --smoke", "bench_element_access --smoke"])

    def create_plot(self, task):
        """Creates the plot.py of a benchmark, which then writes its figures."""
        (self.root / "bench" / task / "plot.py").touch()
        program = self.root / "build" / "bench" / "bench" / f"bench_{task}"
        program.write_text(program.read_text().replace("exit 0", '[ "$1" != --json ] || echo {} >"$2"'))

    def test_bench_draws_the_plot_of_a_task_without_options(self):
        self.create_benchmarks("load", "checksum", "open")
        for task in ("load", "checksum"):
            self.create_plot(task)
            status, output, calls = self.run_dev("bench", task)
            self.assertEqual(status, 0, output)
            self.assertIn(f"bench_{task} --json build/bench/{task}.json\n", calls)
            self.assertIn(f"python3 bench/{task}/plot.py build/bench/{task}.json docs/{task}.svg\n", calls)
            (self.root / "calls").unlink()
            status, output, calls = self.run_dev("bench", task, "--smoke")
            self.assertEqual(status, 0, output)
            self.assertNotIn("plot.py", calls)
            (self.root / "calls").unlink()

    def test_bench_fails_if_the_plot_cannot_be_drawn(self):
        self.create_benchmarks("load", "open")
        self.create_plot("load")
        self.stand_in("python3", "exit 3")
        status, output, calls = self.run_dev("bench", "load")
        self.assertIn("python3 bench/load/plot.py", calls)
        self.assertEqual(status, 3, output)

    def test_bench_draws_nothing_for_a_task_without_a_plot(self):
        self.create_benchmarks("open", "catalog")
        status, output, calls = self.run_dev("bench", "open")
        self.assertEqual(status, 0, output)
        self.assertIn("bench_open \n", calls)
        self.assertNotIn("plot.py", calls)

    def test_unknown_benchmark_is_reported(self):
        status, output, calls = self.run_dev("bench", "nonsense")
        self.assertEqual(status, 2)
        self.assertIn("benchmark 'nonsense' does not exist", output)
        self.assertEqual(calls, "")

    def test_uses_sudo_if_not_root_and_reports_a_missing_sudo(self):
        self.apt([])
        self.stand_in("id", "echo 1000")
        self.stand_in("cmake", "exit 0")
        status, output, _ = self.run_dev("build")
        self.assertEqual(status, 2)
        self.assertIn("neither root nor sudo", output)
        self.stand_in("sudo", '"$@"')
        status, output, calls = self.run_dev("build")
        self.assertEqual(status, 0, output)
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", calls)

    def test_failing_apt_is_reported_with_its_output(self):
        self.apt([])
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", "echo 'E: no such package' >&2; exit 100")
        status, output, _ = self.run_dev("build")
        self.assertEqual(status, 2)
        self.assertIn("E: no such package", output)
        self.assertIn("apt could not install", output)

    def test_relative_prefix_is_resolved_in_the_current_folder(self):
        self.apt(packages("build"))
        self.stand_in("cmake", "exit 0")
        with tempfile.TemporaryDirectory() as elsewhere:
            _, _, calls = self.run_dev("install", "out", cwd=elsewhere)
            self.assertIn(f"--prefix {os.path.realpath(elsewhere)}/out", calls)


if __name__ == "__main__":
    unittest.main()
