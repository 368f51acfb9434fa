# SPDX-License-Identifier: BSL-1.0
"""Checks that the headers stand what programs do around them.

usage: surroundings.py INCLUDE_DIR COMPILER [FLAG...]

- An older language is one error in words, and so are a program without exceptions and a 32-bit processor.
- Macros that programs and other headers define: physics' and mathematics' letters, what <complex.h>, <termios.h> and X11
  have, and words in capitals. Other letters are Weft's template parameters: a program that has a macro of one, T say,
  defines it behind the headers.
- `using namespace std` beside `using namespace weft`.
- <complex.h> with GNU extensions, g++'s -fsanitize=undefined, under which addresses in constant expressions are not
  compared, and the old ABI of std::string.

All headers are included each time, but for those of optional libraries and of GPUs.
"""
import os
import pathlib
import re
import subprocess
import sys

root, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
OBJECTS = """E G H I J M N Q W  EXP PI TAU EPS B0 B1 B50 IN OUT OPTIONAL ERROR DEBUG INFO WARNING CHECK ASSERT LOG TRACE
             TRUE FALSE YES NO None Status Bool True False Success Always Complex Convex OK ERR DELETE CONST VOID NULL_
             hyper interface byte_ cdecl pascal unix linux i386 signals slots emit forever
             complex imaginary UNUSED LIKELY ARRAY_SIZE MAX MIN ABS SIZE LENGTH BUFFER_SIZE VERSION""".split()
FUNCTIONS = "bit require debug warning panic foreach".split()
faults = []


def compile(source, *more):
    return subprocess.run([compiler, *flags, *more, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"})


def must_compile(what, source, *more):
    run = compile(source, *more)
    if run.returncode:
        faults.append(f"{what}: does not compile with {compiler}:\n" + "\n".join(run.stdout.splitlines()[:40]))


# Files that compile once, headers of optional libraries and of GPUs.
left_out = re.compile(r"(^|/)(gpu/|cuda|source|distributed_source|gpu_|nccl_|mpi_|.*(dnnl|cblas|lapack|openblas)[^/]*$)")
needs_boost = re.compile(r"distributed|transport|checkpoint/(saver|archive)|train/(saved_run|supervised)")
names_of_headers = sorted(str(header.relative_to(root / "weft")) for header in root.rglob("*.hpp"))
names_of_headers = ["weft.hpp"] + [name for name in names_of_headers if not left_out.search(name) and name != "weft.hpp"]
headers = "".join(f"#include <weft/{name}>\n" for name in names_of_headers if not needs_boost.search(name))
headers += "#if __has_include(<boost/asio.hpp>)\n" + "".join(
    f"#include <weft/{name}>\n" for name in names_of_headers if needs_boost.search(name)) + "#endif\n"

# Whatever header is the first: those that include no other of Weft's are the ones that must ask.
for header in sorted(root.rglob("*.hpp")):
    text = header.read_text()
    if "#include <weft/" not in text and header.name not in ("config.hpp", "version.hpp", "compiler.hpp"):  # config.hpp includes them
        faults.append(f"{header.relative_to(root)} includes nothing of Weft's: it needs #include <weft/config.hpp>")
old = compile("#include <weft/weft.hpp>\nusing namespace weft;\nint main() { graph g; }\n", "-std=c++17")
errors = re.findall(r"error: (.*)", old.stdout)
if not errors or "Weft needs C++20: compile with -std=c++20" not in errors[0] or len(errors) > 2:
    faults.append(f"{compiler} -std=c++17 says:\n{old.stdout}")

none = compile("#include <weft/weft.hpp>\nusing namespace weft;\nint main() { graph g; }\n", "-fno-exceptions")
errors = re.findall(r"error: (.*)", none.stdout)
if not errors or "Weft reports errors by exceptions: compile without -fno-exceptions" not in errors[0] or len(errors) > 2:
    faults.append(f"{compiler} -fno-exceptions says:\n{none.stdout}")

# The standard library for -m32 is often absent: the message must come before any header of it. Compilers for processors
# without a 32-bit mode reject the option.
if subprocess.run([compiler, "-m32", "-E", "-x", "c++", "-"], input="", text=True, capture_output=True).returncode == 0:
    for umbrella in ("weft", "distributed"):
        narrow = compile(f"#include <weft/{umbrella}.hpp>\n", "-m32")
        errors = re.findall(r"error: (.*)", narrow.stdout)
        if not errors or "Weft needs a 64-bit processor" not in errors[0] or len(errors) > 2:
            faults.append(f"{compiler} -m32 says:\n{narrow.stdout}")

# Other headers come first, as in a program: most of them do not stand these macros themselves.
standard = {name for header in root.rglob("*.hpp") for name in re.findall(r"^#\s*include <([^>]+)>", header.read_text(), re.M)
            if not name.startswith("weft/")}
available = "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in sorted(standard)
                    if not re.search(r"cu(da|blas|dnn|b/)|nccl|mpi[.]|dnnl|cblas|zlib|Weft", name))
macros = [*OBJECTS, *(f"{m}(x)" for m in FUNCTIONS)]
names = [m.split("(")[0] for m in macros]
must_compile("macros, using namespace std",
             available + "".join(f"#undef {name}\n#define {m} (a macro)\n" for name, m in zip(names, macros)) + headers +
             "".join(f"#undef {name}\n" for name in names) + """
#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <vector>
using namespace std;
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  tensor<float, dims<3>> a{1, 2, 3}, b{3, 2, 1};
  const tensor<float, dims<3>> larger = max(a, b), smaller = min(a, b);
  auto in_graph = max(exp(x), min(x, abs(x) * 2));
  static_assert(is_same_v<decltype(let(max(x, x))), node<float, dims<3>>>);
  float one = max<float>(max(a), 2.0f);
  one = max(1.0f, one) + pow(2.0f, 3) + sqrt(sum(a));
  const auto sorted = sort<0>(larger);
  vector<float> values{one};
  sort(values.begin(), values.end());
  try {
    data::fashion_mnist("train");
  } catch (const error& e) {
    return e.code() == error::not_found || e.code() == weft::error_code::deadline_exceeded;
  }
  const string text = to_string(smaller.extents()) + to_string(1);
  return static_cast<int>(size(text)) + static_cast<int>(sorted(0)) + static_cast<int>(get<0>(gradients(sum(in_graph), x)).id().node);
}
""")
# All at once, for each reads all headers: flags that do not concern each other.
flags_of_others = ["-std=gnu++20", "-D_GLIBCXX_USE_CXX11_ABI=0"]
if "clang" not in pathlib.Path(compiler).name:
    flags_of_others.append("-fsanitize=undefined")
must_compile("<complex.h> with " + " ".join(flags_of_others), available + "#include <complex.h>\n" + headers + """
using namespace weft;
int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"b">, 10>>(g, "x");
  auto y = let(slice<1, 0, 1>(x));
}
""", *flags_of_others)
print("\n".join(faults) or f"{len(macros)} macros, an older language, using namespace std: all is well")
sys.exit(1 if faults else 0)
