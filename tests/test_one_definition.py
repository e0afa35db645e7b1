"""A name that two files define differently ends the strict build (`make test`, `make sanitize`)."""

import subprocess
from pathlib import Path

import pytest

FLAGS = f"@{Path(__file__).parent / 'native' / 'strict.flags'}"

FIRST = """
namespace patallreduce::{} {{
class Group {{
 public:
  double mean() const {{ return sum_ / 2; }}

 private:
  double sum_ = 1;
}};
int first() {{ return static_cast<int>(Group().mean()); }}
}}
"""
SECOND = """
#include <vector>
namespace patallreduce::{} {{
struct Group {{
  std::vector<int> members;
}};
int second() {{ return static_cast<int>(Group{{}}.members.size()); }}
}}
int main() {{}}
"""


def build(folder, namespaces):
    for name, text, namespace in zip(("first", "second"), (FIRST, SECOND), namespaces, strict=True):
        (folder / f"{name}.cpp").write_text(text.format(namespace))
        compiled = ["g++", FLAGS, "-c", f"{name}.cpp", "-o", f"{name}.o"]
        subprocess.run(compiled, cwd=folder, check=True, timeout=40)
    linked = ["g++", FLAGS, "first.o", "second.o", "-o", "both"]
    return subprocess.run(
        linked, cwd=folder, capture_output=True, text=True, timeout=40, check=False
    )


@pytest.mark.parametrize("second", ["clairvoyant", "gpu"])
def test_two_classes_of_one_name_are_refused_in_one_namespace(tmp_path, second):
    """As csrc had them: in two folders, each linked into one library."""
    linked = build(tmp_path, ("clairvoyant", second))
    if second == "clairvoyant":
        assert linked.returncode != 0
        assert "violates the C++ One Definition Rule" in linked.stderr
        assert "Group" in linked.stderr
    else:
        assert (linked.returncode, linked.stderr) == (0, "")
