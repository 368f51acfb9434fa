# SPDX-License-Identifier: BSL-1.0
"""Imports a network of torchvision by `weft import`, compiles it with weft::compiled, and times one image.

usage: imported.py MODEL --python INTERPRETER [--threads N] [--seconds S]
INTERPRETER has torch and torchvision, which export the network to build/bench/imported. build/default must have the
targets weft_command, weft_compiled and bench_models. Prints two JSON objects, with the keys of compile.py and of models.cpp.
"""
import argparse
import pathlib
import shlex
import subprocess
import sys

from compiled_programs import measure_compilation

p = argparse.ArgumentParser()
p.add_argument("model")
p.add_argument("--python", required=True)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--seconds", type=float, default=4)
a = p.parse_args()
root = pathlib.Path(__file__).resolve().parent.parent
folder, build = root / "build/bench/imported", root / "build/default"
folder.mkdir(parents=True, exist_ok=True)

onnx = folder / f"{a.model}.onnx"
if not onnx.exists():
    subprocess.run([a.python, root / "bench/peers/inference_peers.py", a.model, "--export", onnx], check=True)
subprocess.run([build / "tools/weft", "import", onnx, "--out", folder], check=True, stdout=sys.stderr)

source = folder / f"{a.model}.cpp"
source.write_text(f"""#include <weft/nn/weights.hpp>
#include <weft/weft.hpp>
#include "timing.hpp"
#include "{a.model}.hpp"

using namespace weft;

int main() {{
  graph g;
  const auto x = placeholder<float, {a.model}::x_dims>(g, "x");
  const auto net = nn::named({a.model}::model(), "{a.model}");
  const auto y = net(x);
  session s{{g, {{.threads = {a.threads}}}}};
  nn::load_weights("{folder}/{a.model}.safetensors", net, s);
  auto step = s.prepare(fetch(y), feed(x));
  tensor<float, {a.model}::x_dims> image;
  bench::fill(image.data(), image.elements(), -1, 1);
  const bench::timing t = bench::time({{.seconds = {a.seconds}, .warm_up = 5}}, [&] {{ step(image); }});
  std::printf("{{\\"peer\\": \\"weft\\", \\"model\\": \\"{a.model}\\", \\"mode\\": \\"infer\\", \\"batch\\": 1, \\"threads\\": {a.threads}, "
              "\\"ms_median\\": %.4f, \\"ms_min\\": %.4f, \\"items_per_s\\": %.2f}}\\n",
              t.median * 1e3, t.least * 1e3, 1 / t.median);
}}
""")

# The commands of bench_models, with this file in the place of its own.
commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "bench_models"], check=True, capture_output=True, text=True).stdout
lines = commands.splitlines()
compiling = next(shlex.split(line) for line in lines if line.endswith("bench/models.cpp"))
object_file = compiling[compiling.index("-o") + 1]
compiling = [word for word in compiling if not word.endswith("ccache")]
compiling[compiling.index("-o") + 1], compiling[-1] = f"{source}.o", str(source)
compiling += ["-DWEFT_SEPARATE_COMPILATION", f"-I{root}/bench"]
measure_compilation(compiling, pathlib.Path(compiling[0]).name, "-O2", cwd=build, program=a.model, imported=True, separate=True)

linking = lines[-1].replace(object_file, f"{source}.o libweft_compiled.a").replace(" -o bench/bench_models ", f" -o {folder}/{a.model} ")
subprocess.run(linking, shell=True, cwd=build, check=True, stdout=subprocess.DEVNULL)
subprocess.run([folder / a.model], check=True)
