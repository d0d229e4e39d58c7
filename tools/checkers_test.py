#!/usr/bin/env python3
"""Tests the checkers on small source trees: correct ones, and trees with one fault each."""

import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).parent
GOOD = {
    "src/base/CMakeLists.txt": "ht_folder(NAME base\n  SOURCES a.cpp)\n",
    "src/io/CMakeLists.txt": "ht_folder(NAME io\n  SOURCES b.cpp\n  DEPS base)\n",
    "src/base/a.cpp": "#include <htensor/base/a.hpp>\n#include <vector>\n",
    "src/io/b.cpp": '#include <htensor/base/a.hpp>\n#include "io/b.hpp"\n#include <fmt/format.h>\n',
    "src/io/port/port_posix.cpp": "#include <sys/mman.h>\n#include <unistd.h>\n",
    "include/htensor/base/a.hpp": "#include <tl/expected.hpp>\n#include <span>\n",
    "src/base/r.cpp": 'fail(ErrorCode::gap, "no_gap", "");\n',
    "src/base/r_test.cpp": "TEST(R, no_gap) {}\n",
    "examples/layers/layers.hpp": "#include <x/float.h>\n// F32 on Host\ntemplate <class D, class Dev> class Linear {};\n",
    "examples/llama/llama.hpp": "// A model.\n" * 300,
    "examples/llama/main.cpp": "int main() {\n}\n" * 50,
}


def outcome(checker, changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **changes}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run([sys.executable, str(TOOLS / checker), folder], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class Root(unittest.TestCase):
    def test_every_checker_reports_a_folder_without_the_project(self):
        for checker in ("arrows", "docs", "generic", "rules", "surface", "try", "words"):
            with tempfile.TemporaryDirectory() as folder:
                run = subprocess.run([sys.executable, str(TOOLS / f"check_{checker}.py"), folder], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1, checker)
            self.assertRegex(run.stderr, rf"^check_{checker}: no .+ found; is ROOT the project\?$")
            self.assertEqual(run.stdout, "")


class Arrows(unittest.TestCase):
    def refuses(self, changes, words):
        status, output = outcome("check_arrows.py", changes)
        self.assertNotEqual(status, 0, output)
        self.assertIn(words, output)

    def test_accepts_a_tree_that_follows_the_arrows(self):
        self.assertEqual(outcome("check_arrows.py", {})[0], 0)

    def test_accepts_keywords_after_the_dependencies(self):
        for keyword in ("TESTS_WITHOUT_UNITY", "LINK x", "TESTS b_test.cpp"):
            folder = {"src/io/CMakeLists.txt": f"ht_folder(NAME io\n  SOURCES b.cpp\n  DEPS base\n  {keyword})\n"}
            self.assertEqual(outcome("check_arrows.py", folder)[0], 0, keyword)

    def test_refuses_an_include_against_the_arrows(self):
        self.refuses({"src/base/a.cpp": "#include <htensor/io/b.hpp>\n"}, "src/base/a.cpp:1")

    def test_refuses_a_private_include_against_the_arrows(self):
        self.refuses({"src/base/a.cpp": '\n#include "io/b.hpp"\n'}, "folder base does not depend on io")

    def test_refuses_a_private_include_in_brackets(self):
        self.refuses({"src/base/a.cpp": "#include <io/b.hpp>\n"}, "folder base does not depend on io")

    def test_refuses_a_library_in_a_public_header(self):
        self.refuses({"include/htensor/base/a.hpp": "#include <fmt/format.h>\n"}, "public headers include only the standard library")

    def test_refuses_a_private_header_in_a_public_one(self):
        self.refuses({"include/htensor/base/a.hpp": '#include "base/x.hpp"\n'}, "public headers include only public headers")

    def test_refuses_system_calls_outside_of_the_port(self):
        self.refuses({"src/io/b.cpp": "#include <sys/mman.h>\n"}, "only src/io/port/")

    def test_refuses_private_headers_in_the_program(self):
        self.refuses({"src/cli/verbs/ls.cpp": '#include "io/b.hpp"\n'}, "the program and the C API include only public headers")
        self.refuses({"src/c/model.cpp": '#include "io/b.hpp"\n'}, "the program and the C API include only public headers")

    def test_refuses_a_cycle(self):
        self.refuses({"src/base/CMakeLists.txt": "ht_folder(NAME base\n  SOURCES a.cpp\n  DEPS io)\n"}, "cycle")

    def test_refuses_test_helpers_in_the_library(self):
        self.refuses({"src/io/b.cpp": '#include "testing/fake.hpp"\n'}, "only tests include shared test code")

    def test_accepts_a_shared_fixture_only_in_tests(self):
        for name in ("b_test.hpp", "test_b.hpp", "b_test_file.hpp"):
            use = f'#include "io/{name}"\n'
            fixture = {f"src/io/{name}": '#include "testing/fake.hpp"\n', "src/io/b_test.cpp": use, "src/io/fuzz_b.cpp": use}
            status, output = outcome("check_arrows.py", fixture)
            self.assertEqual(status, 0, output)
            self.refuses({**fixture, "src/io/b.cpp": use}, f"src/io/b.cpp:1: io/{name}: only tests include shared test code")


class Generic(unittest.TestCase):
    def refuses(self, line, words):
        status, output = outcome("check_generic.py", {"examples/layers/layers.hpp": f"\n{line}\n"})
        self.assertNotEqual(status, 0, output)
        self.assertIn(words, output)

    def test_accepts_layers_that_name_no_dtype_and_no_device(self):
        self.assertEqual(outcome("check_generic.py", {})[0], 0)

    def test_refuses_a_dtype_in_a_layer(self):
        self.refuses("using D = ht::BF16;", "examples/layers/layers.hpp:2: a layer names BF16")
        self.refuses("\n\n#include <a>\nusing D = ht::BF16;", "examples/layers/layers.hpp:5: a layer names BF16")
        self.refuses("float sum = 0;", "names float")
        self.refuses("ht::Tensor<ht::Float<64>, S> x;", "names Float<64>")
        self.refuses("ht::BlockTensor<ht::Q4_K, S> x;", "names Q4_K")

    def test_refuses_a_device_in_a_layer(self):
        self.refuses("using Dev = ht::Host;", "names Host")
        self.refuses("using Dev = ht::OpenCl<ht::Gpu>;", "names OpenCl")

    def test_refuses_a_llama_of_more_than_400_lines(self):
        status, output = outcome("check_generic.py", {"examples/llama/config.hpp": "\n"})
        self.assertNotEqual(status, 0, output)
        self.assertIn("examples/llama: 401 lines, but the limit is 400", output)


class Rules(unittest.TestCase):
    def test_accepts_rules_with_tests(self):
        self.assertEqual(outcome("check_rules.py", {})[0], 0)

    def test_accepts_rules_that_a_shared_fixture_names(self):
        for name in ("c_test.hpp", "test_c.hpp", "c_test_file.hpp"):
            fixture = {f"src/compute/{name}": 'EXPECT_TRUE(fails(x, ErrorCode::gap, "no_such_rule"));\n'}
            self.assertEqual(outcome("check_rules.py", fixture)[0], 0, name)

    def test_refuses_a_rule_without_a_test(self):
        status, output = outcome("check_rules.py", {"src/base/r_test.cpp": "TEST(R, something_else) {}\n"})
        self.assertNotEqual(status, 0)
        self.assertIn("no_gap", output)

    def test_refuses_a_rule_of_a_computed_code_without_a_test(self):
        for code in ("code", "facts_of(verdict).code"):
            source = {"src/base/r2.cpp": f'return fail(Error({code}, "no_such_rule", "x"));\n'}
            status, output = outcome("check_rules.py", source)
            self.assertNotEqual(status, 0, code)
            self.assertIn("no test is named after the rule no_such_rule", output)

    def test_refuses_an_undocumented_rule_of_a_format(self):
        files = {
            "src/format/f.cpp": 'return fail(ErrorCode::gap, "tensors_leave_no_gap", "x");\n',
            "src/format/f_test.cpp": "TEST(F, tensors_leave_no_gap) {}\n",
        }
        status, output = outcome("check_rules.py", files)
        self.assertNotEqual(status, 0)
        self.assertIn("docs/formats.md does not list the rule tensors_leave_no_gap", output)
        listed = {"docs/formats.md": "| `tensors_leave_no_gap` | `gap` | … |\n"}
        self.assertEqual(outcome("check_rules.py", {**files, **listed})[0], 0)

    def test_refuses_an_error_of_compute_without_a_hint(self):
        def source(error):
            return {
                "src/compute/c.cpp": f"return fail({error});\n",
                "src/compute/c_test.cpp": "TEST(C, shapes_are_equal) {}\n",
            }

        bare = 'Error(ErrorCode::shape_mismatch, "shapes_are_equal", "x")'
        status, output = outcome("check_rules.py", source(bare))
        self.assertNotEqual(status, 0)
        self.assertIn("the error of the rule shapes_are_equal has no hint", output)
        self.assertEqual(outcome("check_rules.py", source(bare + '.with_hint("y")'))[0], 0)


# An inline function that the optimiser cannot inline, and a call of it.
INLINE = "[[gnu::noinline]] inline int twice(int x) { return 2 * x; }\nint use(int x) { return twice(x); }\n"
TARGETED = '[[gnu::target("avx2")]] int add(int a, int b) { return a + b; }\n'


@unittest.skipUnless(shutil.which("g++") and platform.machine() == "x86_64", "needs g++ for x86-64")
class Weak(unittest.TestCase):
    def outcome(self, text, flags=""):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.cpp").write_text(text)
            entry = {"directory": folder, "file": "a.cpp", "command": f"g++ -O0 {flags} -c a.cpp -o a.o"}
            pathlib.Path(folder, "compile_commands.json").write_text(json.dumps([entry]))
            checker = [sys.executable, str(TOOLS / "check_weak.py"), folder]
            run = subprocess.run(checker, capture_output=True, text=True, check=False)
            return run.returncode, run.stdout + run.stderr

    def test_accepts_a_targeted_source_without_weak_symbols(self):
        self.assertEqual(self.outcome(TARGETED), (0, self.outcome("int x;\n", "-mavx2")[1]))

    def test_accepts_weak_symbols_for_the_baseline(self):
        status, output = self.outcome(INLINE)
        self.assertEqual(status, 0, output)
        self.assertIn("0 sources", output)

    def test_refuses_a_weak_symbol_under_a_flag(self):
        status, output = self.outcome(INLINE, "-mavx2")
        self.assertNotEqual(status, 0, output)
        self.assertIn("weak symbol: twice(int)", output)

    def test_refuses_a_weak_symbol_beside_an_attribute(self):
        self.assertIn("weak symbol: twice(int)", self.outcome(TARGETED + INLINE)[1])

    def test_refuses_a_weak_symbol_under_a_pragma(self):
        self.assertIn("weak symbol: twice(int)", self.outcome('#pragma GCC target("avx2")\n' + INLINE)[1])


class Surface(unittest.TestCase):
    HEADER = """namespace ht::inline v1 {
struct Forward;
template <class T>
concept Public = true;
struct Plain {
  struct Nested {};
};
template <>
struct Plain<int> {};
namespace detail {
class Hidden {};
}  // namespace detail
enum class Kind { a, b };
}
"""

    def test_lists_types_at_namespace_scope_outside_of_detail(self):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder, "include/htensor/a.hpp")
            header.parent.mkdir(parents=True)
            header.write_text(self.HEADER)
            run = subprocess.run([sys.executable, str(TOOLS / "check_surface.py"), folder, "--list"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(re.findall(r"^htensor/a.hpp: (\w+)$", run.stdout, re.MULTILINE), ["Kind", "Plain"])
        self.assertIn("1 concepts", run.stdout)

    def test_refuses_more_headers_than_the_limit(self):
        status, output = outcome("check_surface.py", {f"include/htensor/h{i}.hpp": "" for i in range(100)})
        self.assertNotEqual(status, 0)
        self.assertIn("at most", output)


class Words(unittest.TestCase):
    def output_for(self, source):
        return outcome("check_words.py", {"src/base/m.cpp": source})

    def refuses(self, source, words):
        status, output = self.output_for(source)
        self.assertNotEqual(status, 0, output)
        self.assertIn(words, output)

    def test_accepts_plain_words(self):
        plain = 'fail(ErrorCode::gap, "no_gap", "data ends at byte 8 but the file has 4 bytes");\n'
        self.assertEqual(self.output_for(plain)[0], 0)

    def test_refuses_each_phrase(self):
        for phrase, advice in (
            ("the key is no text", "'is no': say 'is not a …', 'is missing' or 'does not exist'"),
            ("these are none of ours", "'are none': say 'is not a …', 'is missing' or 'does not exist'"),
            ("the system does not tell", "'tell': name the fact: 'reports', 'says', 'is unknown'"),
            ("whoever wrote it", "'whoever': name the program, thread or caller"),
            ("only those that match", "'those that': name the thing"),
            ("the bytes are as they were", "'as they were': say 'unchanged', or name the state"),
            ("none of them matches", "'none of them': say 'no …'"),
            ("memory could not be had", "'could not be': say 'cannot …'"),
            ("it is turned round", "'turned round': say 'byte-swap' or 'transpose'"),
            ("the read came short", "'came short': say 'truncated' or 'ends at byte …'"),
            ("has not just their size", "'not just': state the condition that holds"),
            ("the file is not there", "'is not there': say 'exists' or 'is missing'"),
            ("please fetch it again", "'fetch it': say 'download the file again'"),
            ("what is loaded is too large", "'what is': name the subject"),
        ):
            self.refuses(f'x = "{phrase}";\n', f"src/base/m.cpp:1: {advice}")

    def test_finds_a_phrase_across_wrapped_literals(self):
        self.refuses('\nx = "the key is "\n    "no text";\n', "src/base/m.cpp:2: 'is no'")

    def refuses_in(self, files, words):
        status, output = outcome("check_words.py", files)
        self.assertNotEqual(status, 0, output)
        self.assertIn(words, output)

    def test_ignores_names_in_code(self):
        free = 'const char* slashes = "a // b";\nx = "is_no_gap";\nint told = 0;\n'
        self.assertEqual(self.output_for(free)[0], 0)

    def test_refuses_phrases_in_texts_of_tests_and_benchmarks(self):
        for name in ("src/base/m_test.cpp", "src/base/m_fuzz.cpp", "src/testing/m.hpp", "bench/load/m.cpp", "examples/c/m.c"):
            self.refuses_in({name: 'x = "one\\n";\nx = "one is no "\n    "part";\n'}, f"{name}:2: 'is no '")
            self.refuses_in({name: "// The reader who\n// waits.\n"}, f"{name}:1: 'who'")
        # Tests quote messages of other programs, which may contain such phrases.
        self.assertEqual(outcome("check_words.py", {"src/base/m_test.cpp": 'x = "it could not be read";\n'})[0], 0)

    def test_refuses_phrases_in_names_of_tests(self):
        self.refuses_in({"src/base/m_test.cpp": "\nTEST(Jobs, of_one_worker_run) {}\n"}, "src/base/m_test.cpp:2: 'of'")
        self.refuses_in({"src/base/m_test.cpp": "TEST_F(Jobs, file_is_not_there) {}\n"}, "'not there'")
        self.refuses_in({"python/tests/test_m.py": "def test_of_bytes():\n    pass\n"}, "python/tests/test_m.py:1: 'of'")
        self.assertEqual(outcome("check_words.py", {"src/base/m_test.cpp": "TEST(Jobs, bytes_of_all) {}\n"})[0], 0)

    def test_refuses_phrases_in_python(self):
        for text in ("# A folder that is\n# no file.\n", '"""A folder that is no file."""\n', 'x = ("a", f"{1} is "\n  "no file")\n'):
            self.refuses_in({"tools/m.py": "\n" + text}, "tools/m.py:2: 'is no '")
        self.assertEqual(outcome("check_words.py", {"tools/m.py": 'who = told = "nobody"\n'})[0], 0)

    def test_refuses_phrases_in_shell_and_cmake(self):
        for name in ("dev", ".ci/run", "CMakeLists.txt", "src/io/CMakeLists.txt", "cmake/m.cmake"):
            for line, text in ((2, 'stop "the file is not there"\n'), (3, "if(x)\n  # The file is\n  # not there.\n")):
                self.refuses_in({name: "\n" + text}, f"{name}:{line}: ")
        self.refuses_in({"dev": "cat <<'TXT'\nthe file is not there\nTXT\n"}, "dev:1: ")

    def test_ignores_code_of_shell_and_cmake(self):
        code = 'who is there; told=${#who[@]} $# there; set(nobody who) "${who}"\n'
        self.assertEqual(outcome("check_words.py", {"dev": code, "cmake/m.cmake": code})[0], 0)

    def test_refuses_phrases_in_comments_also_across_lines(self):
        self.refuses("int a;\n// The caller is told.\n", "src/base/m.cpp:2: 'told'")
        self.refuses("// A key that is\n// no text.\n", "src/base/m.cpp:1: 'is no '")
        self.assertEqual(self.output_for("// There is no limit; memory is no longer used.\n")[0], 0)

    def test_refuses_phrases_in_documents_outside_of_code(self):
        document = "# A\n\n```\nnobody\n```\n"
        self.assertEqual(outcome("check_words.py", {"docs/a.md": document})[0], 0)
        status, output = outcome("check_words.py", {"docs/a.md": document + "\nNobody reads it.\n"})
        self.assertNotEqual(status, 0)
        self.assertIn("docs/a.md:7: 'Nobody'", output)

    def test_accepts_similar_words(self):
        self.assertEqual(self.output_for('x = "the file is not a folder; memory is no longer used; as it is read";\n')[0], 0)


class Docs(unittest.TestCase):
    def faults_of(self, text, changes=None):
        status, output = outcome("check_docs.py", {"docs/a.md": text, **(changes or {})})
        self.assertEqual(status, 1 if "a.md:" in output else 0, output)
        return output

    def test_accepts_links_headings_files_and_names_that_exist(self):
        text = "# A `b` (c)\n[here](#a-b-c) [there](b.md#one) [web](https://x/y.md) [r.cpp](../src/base/r.cpp)\nbase/r.cpp `Linear::Dev` `std::any`\n"
        self.assertNotIn("a.md", self.faults_of(text, {"docs/b.md": "## One\n"}))

    def test_refuses_a_link_to_a_missing_file(self):
        self.assertIn("docs/a.md:2: link to b.md: the file does not exist", self.faults_of("\n[b](b.md)\n"))

    def test_refuses_a_link_to_a_missing_heading(self):
        for target in ("#two", "b.md#two"):
            self.assertIn("does not have this heading", self.faults_of(f"# One\n[b]({target})\n", {"docs/b.md": "```\n# Two\n```\n"}))

    def test_refuses_a_missing_file(self):
        self.assertIn("docs/a.md:1: base/q.cpp does not exist", self.faults_of("Read base/q.cpp and x_test.cpp.\n"))

    def test_refuses_a_missing_file_in_the_map(self):
        status, output = outcome("check_docs.py", {"HACKING.md": "```\nq.cpp\n```\n"})
        self.assertEqual(status, 1)
        self.assertIn("HACKING.md:2: q.cpp does not exist", output)

    def test_refuses_a_missing_name(self):
        self.assertIn("docs/a.md:1: Linear::run: the sources do not have run", self.faults_of("`Linear::run` reads.\n"))


class Try(unittest.TestCase):
    def output_for(self, source):
        return outcome("check_try.py", {"src/base/t.cpp": source})

    def test_refuses_a_try_after_a_member(self):
        for source in ("x = Pair{first(), HT_TRY(second())};\n", "x = {\n  .a = f(1, 2),\n  .b = g(HT_TRY(h()))};\n"):
            status, output = self.output_for(source)
            self.assertNotEqual(status, 0, output)
            self.assertIn("src/base/t.cpp:", output)

    def test_accepts_a_try_that_follows_no_member(self):
        for source in (
            "x = Pair{HT_TRY(first()), second()};\n",
            "f(first(), HT_TRY(second()));\n",
            "void f() { const std::map<int, int> x = HT_TRY(g()); }\n",
            "void f() { a(1, 2); HT_TRY(g()); }\n",
            'x = Pair{HT_TRY(f("{a, b")), 1};  // {a, HT_TRY(b)}\n',
        ):
            status, output = self.output_for(source)
            self.assertEqual(status, 0, source + output)


if __name__ == "__main__":
    unittest.main()
