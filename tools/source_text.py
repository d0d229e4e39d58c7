"""Functions and patterns for source files that several checkers use."""

import re

# Names of tests, of fuzzers, and of sources that tests or fuzzers share.
TEST_FILE = re.compile(r"_test\.|_fuzz\.|(?:^|_)test_|^fuzz_")
# The name of a test of GoogleTest or RapidCheck.
TEST_NAME = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*\w+\s*,\s*(\w+)", re.MULTILINE)


def blanked(pattern, text):
    """The text with spaces for every match. Line breaks stay, so that offsets and line numbers stay correct."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
