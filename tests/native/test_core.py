"""The core without Python, at -O0 under the address and undefined-behaviour sanitizers."""

import os
from pathlib import Path

import libucx
import pytest

from tests import programs

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "strict" / "core_tests"
LIMIT_S = 300
OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1 intercept_tls_get_addr=0",
    "UBSAN_OPTIONS": "halt_on_error=1 print_stacktrace=1",
}


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.skipif(not PROGRAM.exists(), reason="`make test` builds it")
def test_every_native_suite_passes_under_the_sanitizers():
    ucx = Path(libucx.__file__).parent / "lib" / "libucp.so.0"
    run = programs.run(PROGRAM, "1", ucx, limit_s=LIMIT_S, env=os.environ | OPTIONS)
    assert run.returncode == 0, run.stdout
    print(run.stdout)
