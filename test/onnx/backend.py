# SPDX-License-Identifier: BSL-1.0
"""Imports the cases of ONNX's backend suite with `weft import --program`, compiles the programs and compares their outputs.

usage: backend.py --weft WEFT --work FOLDER [--cases cases.zip] [--flags FLAGS] [options]

Without --cases, the cases are those of the Python package onnx: its node cases and the models in backend/test/data. With
it, they are read from an archive that --select has written, and only Python's standard library is required. Every program
becomes a function of a translation unit that thirty cases share. If a unit does not compile, the cases that its errors name
are taken out. FOLDER keeps the results: a case is compiled again only if the importer writes other text or weights for it.
"""
import argparse
import ast
import collections
import concurrent.futures
import fnmatch
import hashlib
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import textwrap
import zipfile

# Their outputs are random: types and extents are compared.
RANDOM = re.compile(r"bernoulli|random_|training_dropout(?!.*zero_ratio)|multinomial")
# Types that Weft does not have.
OTHER_TYPES = re.compile(r"STRING|FLOAT8|FLOAT4|INT4|INT2|COMPLEX")


# ---- collecting ----


def reason_out_of_scope(model):
    """Returns why a model is not for Weft: its element types, its kinds of values or its domain; otherwise ''."""
    import onnx

    def of_type(t):
        kind = t.WhichOneof("value")
        if kind != "tensor_type":
            return (kind or "").replace("_type", "")
        name = onnx.TensorProto.DataType.Name(t.tensor_type.elem_type)
        return name if OTHER_TYPES.search(name) else ""

    def of_graph(graph):
        for node in graph.node:
            if node.domain not in ("", "ai.onnx", "ai.onnx.preview", "ai.onnx.preview.training"):
                yield "domain " + node.domain
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    yield from of_graph(a.g)
                if a.name in ("to", "output_dtype", "dtype") and a.type == onnx.AttributeProto.INT:
                    name = onnx.TensorProto.DataType.Name(a.i)
                    yield name if OTHER_TYPES.search(name) else ""
                if a.type == onnx.AttributeProto.TYPE_PROTO:
                    yield of_type(a.tp)
            if node.op_type.startswith(("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")):
                yield "sequence"
        for v in [*graph.input, *graph.output, *graph.value_info]:
            yield of_type(v.type)
        for v in graph.initializer:
            name = onnx.TensorProto.DataType.Name(v.data_type)
            yield name if OTHER_TYPES.search(name) else ""

    return next((reason for reason in of_graph(model.graph) if reason), "")


def collect(folder):
    """Writes model.onnx, INPUT and OUTPUT files and case.json of every case of the package onnx."""
    import warnings

    import numpy as np
    import onnx
    import onnx.backend.test.loader as loader
    from onnx import numpy_helper

    warnings.simplefilter("ignore")
    data = pathlib.Path(loader.DATA_DIR)

    def array(value):
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if not isinstance(value, np.ndarray) and not np.isscalar(value):
            raise TypeError
        value = np.asarray(value, order="C")
        return value.view("V2") if value.dtype.name == "bfloat16" else value

    def read(path):
        value = onnx.TensorProto()
        value.ParseFromString(path.read_bytes())
        return value

    def write(name, kind, model, sets, rtol, atol, operator, missing=""):
        case = folder / name
        case.mkdir(parents=True)
        given = {i.name for i in model.graph.initializer}
        about = {"name": name, "kind": kind, "operator": operator, "rtol": rtol, "atol": atol,
                 "scope": missing or reason_out_of_scope(model),
                 "inputs": [v.name for v in model.graph.input if v.name not in given],
                 "outputs": [v.name for v in model.graph.output], "sets": len(sets)}
        onnx.save(model, case / "model.onnx")
        try:
            for s, (inputs, outputs) in enumerate(sets if not about["scope"] else []):
                for what, values in (("input", inputs), ("output", outputs)):
                    for i, value in enumerate(values):
                        np.save(case / f"{what}_{s}_{i}.npy", array(value))
        except TypeError:
            about["scope"] = "sequence"
        (case / "case.json").write_text(json.dumps(about))

    for case in loader.load_node_model_tests():
        nodes = case.model.graph.node
        base = re.sub(r"_expanded.*", "", case.name)
        operator = nodes[0].op_type if len(nodes) == 1 and base == case.name else None
        write(case.name, "node", case.model, case.data_sets, case.rtol, case.atol, operator)
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for case in loader.load_model_tests(kind=kind):
            place = pathlib.Path(case.model_dir)
            model = onnx.load(place / "model.onnx")
            sets = []
            for s in sorted(place.glob("test_data_set_*")):
                count = lambda what: len(list(s.glob(what + "_*.pb")))
                try:
                    sets.append([[read(s / f"{what}_{i}.pb") for i in range(count(what))]
                                 for what in ("input", "output")])
                except Exception:  # sequences are other messages
                    sets.append([[None], [None]])
            write(case.name, kind, model, sets, case.rtol, case.atol, None)
    for case in loader.load_model_tests(kind="real"):
        path = data.parent.parent.parent.parent / (case.url or "")
        if not path.is_file():
            continue
        model = onnx.load(path)
        given = {i.name for i in model.graph.initializer}
        inputs = []
        for v in model.graph.input:
            if v.name not in given:
                extents = [d.dim_value or 1 for d in v.type.tensor_type.shape.dim]
                count = math.prod(extents)
                inputs.append((np.arange(count).reshape(extents) / count).astype(np.float32))
        outputs = [read(pathlib.Path(f"{path.with_suffix('')}_output_{i}.pb"))
                   for i in range(len(model.graph.output))]
        write("light_" + case.name.removeprefix("test_"), "light", model, [(inputs, outputs)], case.rtol, case.atol, None)


def cases_of(arguments):
    folder = pathlib.Path(arguments.work, "cases")
    if arguments.cases:
        shutil.rmtree(folder, ignore_errors=True)
        with zipfile.ZipFile(arguments.cases) as archive:
            archive.extractall(folder)
    elif not folder.exists():
        made = folder.with_name("collecting")
        shutil.rmtree(made, ignore_errors=True)
        collect(made)
        made.rename(folder)
    cases = {}
    for path in sorted(folder.glob("*/case.json")):
        case = json.loads(path.read_text())
        cases[case["name"]] = case
    for case in cases.values():  # test_x_expanded_ver18 is a case of test_x's operator
        base = re.sub(r"_expanded.*", "", case["name"])
        case["operator"] = case["operator"] or cases.get(base, {}).get("operator") or case["kind"]
    return [case for case in cases.values()
            if fnmatch.fnmatch(case["name"], arguments.only)
            and (not arguments.operator or case["operator"] in arguments.operator.split(","))]


# ---- importing ----


def identifier(name):
    return re.sub(r"\W", "_", name)


def import_case(arguments, case):
    """Imports a case, with the constants that the importer asks for. Returns a result, without "status" if it succeeded."""
    folder = pathlib.Path(arguments.work, "cases", case["name"])
    out = pathlib.Path(arguments.work, "imported", identifier(case["name"]))
    constants = []
    while True:
        shutil.rmtree(out, ignore_errors=True)
        command = [arguments.weft, "import", folder / "model.onnx", "--out", out, "--name", out.name, "--nchw", "--program"]
        for name in constants:
            command += ["--constant", f"{name}={folder / ('input_0_%d.npy' % case['inputs'].index(name))}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return {"status": "import fails", "reason": "takes more than 60 s"}
        if done.returncode == 0:
            break
        asked = re.search(r"--constant ([^\s=]+)=", done.stderr)
        if done.returncode < 0 or "Sanitizer" in done.stderr:
            return {"status": "import fails", "reason": done.stderr.strip()[-2000:] or f"signal {-done.returncode}"}
        if not asked or asked[1] not in case["inputs"] or asked[1] in constants:
            return {"status": "refused", "reason": done.stderr.strip()}
        constants.append(asked[1])
    digest = hashlib.sha256(arguments.flags.encode())
    for path in sorted(out.iterdir()):
        digest.update(path.read_bytes())
    return {"constants": constants, "hash": digest.hexdigest()}


# ---- compiling ----


def text_of_unit(work, names):
    """The programs as functions run_NAME::main, and a main that calls the one that its first argument names."""
    includes, bodies = [], []
    for name in names:
        path = work / "imported" / name / (name + ".cpp")
        lines = path.read_text().splitlines()
        last = max(i for i, line in enumerate(lines) if line.startswith("#include"))
        for line in lines[:last + 1]:
            line = line.replace('"', f'"{path.parent}/', 1)
            if line.startswith("#include") and line not in includes:
                includes.append(line)
        bodies += [f"namespace run_{name} {{", f'#line {last + 2} "{path}"', *lines[last + 1:], "}"]
    calls = [f'  if (name == "{name}") return run_{name}::main(count - 1, arguments + 1);' for name in names]
    return "\n".join([*includes, "#include <string_view>", *bodies, '#line 1 "dispatch"', "int main(int count, char** arguments) {",
                      "  const std::string_view name = arguments[1];", *calls, "  return 99;", "}", ""])


def precompile(arguments):
    """Clang reads <weft/weft.hpp> faster if it is precompiled. Returns the flags that use it."""
    if not arguments.clang:
        return []
    newest = max(p.stat().st_mtime_ns for p in pathlib.Path(arguments.include).rglob("*") if p.is_file())
    key = hashlib.sha256(f"{newest} {arguments.compile}".encode()).hexdigest()[:16]
    path = pathlib.Path(arguments.work, f"weft-{key}.pch")
    if not path.exists():
        for old in path.parent.glob("weft-*.pch"):
            old.unlink()
        header = path.with_name("precompiled.hpp")
        header.write_text("#include <weft/checkpoint/npy.hpp>\n#include <weft/checkpoint/safetensors.hpp>\n"
                          "#include <weft/weft.hpp>\n")
        subprocess.run([*arguments.launcher, arguments.compiler, *arguments.compile, "-x", "c++-header", header, "-o", path],
                       check=True)
    return ["-include-pch", path]


def compile_unit(arguments, names):
    """Compiles the cases. Returns the program, or None, and the mistakes and warnings of cases that clang's output names."""
    work = pathlib.Path(arguments.work).resolve()
    source = work / "units" / (hashlib.sha256(" ".join(names).encode()).hexdigest()[:16] + ".cpp")
    source.parent.mkdir(exist_ok=True)
    program = source.with_suffix("")
    source.write_text(text_of_unit(work, names))
    found = collections.defaultdict(dict)
    command = [*arguments.launcher, arguments.compiler, *arguments.compile, *arguments.precompiled, "-Wall", "-Wextra",
               "-Wconversion", "-Wshadow", source, "-o", program, *arguments.link]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        return None, {names[0]: {"status": "does not compile", "reason": "takes more than 1800 s"}} if len(names) == 1 else {}
    kind, message = "", ""
    for line in done.stderr.splitlines() if arguments.clang else ():
        if line.startswith("In file included from"):  # names the first case that includes a header, not the one that uses it
            continue
        new = re.search(r": (?:fatal )?(error|warning): (.*)", line)
        if new:
            kind, message = new[1], new[2]
        for name in re.findall(r"/imported/(\w+)/", line):
            if kind == "error":
                found[name].update(status="does not compile", reason=found[name].get("reason", message))
            elif kind == "warning" and message not in found[name].setdefault("warnings", []):
                found[name]["warnings"].append(message)
    if done.returncode == 0:
        return program, found
    source.with_suffix(".log").write_text(done.stderr)
    if len(names) == 1:
        found[names[0]].setdefault("reason", done.stderr[-2000:])
        found[names[0]]["status"] = "does not compile"
    return None, {name: f for name, f in found.items() if "status" in f}


# ---- running and comparing ----


def read_npy(path):
    """Returns the type, the extents and the elements of a file; bfloat16 is V2 there."""
    data = pathlib.Path(path).read_bytes()
    size, start = (struct.unpack("<H", data[8:10])[0], 10) if data[6] == 1 else (struct.unpack("<I", data[8:12])[0], 12)
    header = ast.literal_eval(data[start:start + size].decode("latin1"))
    if header["fortran_order"] and len(header["shape"]) > 1:
        raise ValueError(f"{path} is column-major")
    descr, count, body = header["descr"], math.prod(header["shape"]), data[start + size:]
    if descr.endswith("V2"):
        raw = struct.unpack(f"<{count}H", body)
        return "bfloat16", header["shape"], [struct.unpack("<f", struct.pack("<I", r << 16))[0] for r in raw]
    letter = {"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
              "f2": "e", "f4": "f", "f8": "d"}[descr[1:]]
    return descr[1:], header["shape"], struct.unpack(f"<{count}{letter}", body)


def difference(found, expected, rtol, atol, only_extents):
    """Returns in words how two files differ by the rules of ONNX's test runner, or ''."""
    type_f, extents_f, values_f = read_npy(found)
    type_e, extents_e, values_e = read_npy(expected)
    if (type_f, extents_f) != (type_e, extents_e):
        return f"{type_f} {list(extents_f)} in place of {type_e} {list(extents_e)}"
    if only_extents:
        return ""
    if type_e == "bfloat16":
        rtol = max(rtol, 2**-6)
    bad, example = 0, ""
    for i, (a, b) in enumerate(zip(values_f, values_e)):
        if a == b or a != a and b != b or abs(a) != math.inf and abs(a - b) <= atol + rtol * abs(b) < math.inf:
            continue
        bad += 1
        example = example or f"element {i} is {a!r} in place of {b!r}"
    return f"{bad} of {len(values_e)} elements differ: {example}" if bad else ""


def run_case(arguments, program, case, result):
    folder = pathlib.Path(arguments.work, "cases", case["name"]).resolve()
    imported = pathlib.Path(arguments.work, "imported", identifier(case["name"])).resolve()
    for s in range(case["sets"]):
        out = imported / f"out_{s}"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        command = [program, imported.name, "--weights", imported / (imported.name + ".safetensors"), "--out", out]
        for i, name in enumerate(case["inputs"]):
            if name not in result["constants"]:
                command += ["--" + name, folder / f"input_{s}_{i}.npy"]
            elif s > 0 and (folder / f"input_{s}_{i}.npy").read_bytes() != (folder / f"input_0_{i}.npy").read_bytes():
                return {"status": "refused", "reason": f"{name} is a constant in the import, but differs between sets of inputs"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return {"status": "fails", "reason": "takes more than 120 s"}
        if done.returncode != 0:
            return {"status": "fails", "reason": f"{done.stderr.strip()[-2000:]} (status {done.returncode})"}
        for i, name in enumerate(case["outputs"]):
            expected = folder / f"output_{s}_{i}.npy"
            if not expected.exists():
                continue
            found = out / (re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".npy")
            if not found.exists():
                return {"status": "wrong", "reason": f"the program does not write {found.name}"}
            why = difference(found, expected, case["rtol"], case["atol"], RANDOM.search(case["name"]))
            if why:
                return {"status": "wrong", "reason": f"{name}: {why}"}
        shutil.rmtree(out)
    return {"status": "right"}


def settle_unit(arguments, cases, results):
    """Compiles and runs cases; takes out those that do not compile, and divides a unit whose errors name none."""
    while cases:
        program, found = compile_unit(arguments, [identifier(c["name"]) for c in cases])
        for case in cases:
            results[case["name"]].update(found.get(identifier(case["name"]), {}))
        if program:
            for case in cases:
                results[case["name"]].update(run_case(arguments, program, case, results[case["name"]]))
            program.unlink()
            return
        rest = [c for c in cases if results[c["name"]].get("status") != "does not compile"]
        if len(rest) == len(cases):
            settle_unit(arguments, cases[:len(cases) // 2], results)
            cases = cases[len(cases) // 2:]
        else:
            cases = rest


# ---- reports ----

STATUSES = ("right", "wrong", "fails", "does not compile", "refused", "import fails", "out of scope")


def report(cases, results):
    for title, key in (("operator", "operator"), ("kind", "kind")):
        table = collections.defaultdict(collections.Counter)
        for case in cases:
            table[case[key]][results[case["name"]]["status"]] += 1
        print(f"{title:28}" + "".join(f"{s:>17}" for s in STATUSES))
        for name, row in sorted(table.items()):
            print(f"{name:28}" + "".join(f"{row[s] or '':>17}" for s in STATUSES))
        print(f"{'total':28}" + "".join(f"{sum(row[s] for row in table.values()):>17}" for s in STATUSES) + "\n")
        if key == "operator":
            kinds = {case["kind"] for case in cases}
            print(f"operators with a case that is right: {sum(1 for n, row in table.items() if row['right'] and n not in kinds)}\n")
    for status in STATUSES[1:]:
        reasons = collections.defaultdict(list)
        for case in cases:
            if results[case["name"]]["status"] == status:
                reason = results[case["name"]].get("reason", "").splitlines() or [""]
                reasons[re.sub(r"'[^']*'", "'...'", reason[0]) if status == "refused" else reason[-1]].append(case["name"])
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            print(f"{status}, {len(names)}: {reason[:400]}\n    {' '.join(names)}")
    warned = [(c["name"], results[c["name"]]["warnings"][0]) for c in cases if results[c["name"]].get("warnings")]
    for name, warning in warned:
        print(f"warning: {name}: {warning}")


def select(arguments, cases, results):
    """Writes the smallest case of each operator that is right, below 40 kB, to an archive."""
    best = {}
    for case in cases:
        folder = pathlib.Path(arguments.work, "cases", case["name"])
        size = sum(p.stat().st_size for p in folder.iterdir())
        status = results[case["name"]]["status"]
        if status == "right" and case["kind"] == "node" and "_expanded" not in case["name"] and size < 40000:
            best[case["operator"]] = min(best.get(case["operator"], (math.inf,)), (size, case["name"]))
    with zipfile.ZipFile(arguments.select, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for _, name in sorted(best.values()):
            for path in sorted(pathlib.Path(arguments.work, "cases", name).iterdir()):
                entry = zipfile.ZipInfo(f"{name}/{path.name}", (1980, 1, 1, 0, 0, 0))
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    print(f"{arguments.select}: {len(best)} cases, {os.path.getsize(arguments.select)} bytes")


def write_page(arguments, cases, results):
    """Writes the page of the operators that are imported."""
    import onnx

    def count(chosen):
        row = collections.Counter(results[c["name"]]["status"] for c in chosen)
        other = sum(row.values()) - row["right"] - row["refused"] - row["out of scope"]
        return f"{row['right']} | {row['refused']} | {other} | {row['out of scope']}"

    def reason(case):
        text = results[case["name"]].get("reason", "").removeprefix("weft: import: ")
        text = re.sub(r"^(.*?\(opset \d+\)): ", "", text)
        return re.sub(r'"[^"]*"', "a value", text).replace("|", "\\|")

    by_operator = collections.defaultdict(list)
    for case in cases:
        if case["kind"] == "node":
            by_operator[case["operator"]].append(case)
    by_operator.pop("node", None)
    in_scope = {op: [c for c in all_ if results[c["name"]]["status"] != "out of scope"] for op, all_ in by_operator.items()}
    complete, partial = [], []
    for operator, chosen in sorted(in_scope.items()):
        right = sum(results[c["name"]]["status"] == "right" for c in chosen)
        if chosen and right == len(chosen):
            complete.append(operator)
        elif chosen:
            reasons = collections.Counter(reason(c) for c in chosen if results[c["name"]]["status"] != "right")
            partial.append(f"| {operator} | {right} of {len(chosen)} | {'; '.join(r for r, _ in reasons.most_common(3))} |")
    scopes = collections.Counter(results[c["name"]]["reason"] for c in cases
                                 if results[c["name"]]["status"] == "out of scope")
    kinds = {"node": "single operators", "simple": "small models", "pytorch-converted": "layers of PyTorch",
             "pytorch-operator": "operators of PyTorch", "light": "networks: AlexNet, DenseNet-121, Inception v1 and v2, "
             "ResNet-50, ShuffleNet, SqueezeNet, VGG-19, ZFNet"}
    lines = ["# ONNX operators", "",
             f"`weft import` is tested with ONNX's backend suite, version {onnx.__version__}. `test/onnx/backend.py` imports each",
             "case with `--program`, compiles and runs the program, and compares its outputs by the rules and tolerances of the",
             "suite. It also writes this page:", "",
             "| cases | right | refused | other | out of scope |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {title} | {count([c for c in cases if c['kind'] == kind])} |" for kind, title in kinds.items()]
    lines += [f"| all | {count(cases)} |", "", "If the importer refuses a case, its message has the operator and the reason. No output is wrong."
              if not any(r["status"] == "wrong" for r in results.values()) else "", "",
              "## Operators", "", f"All cases of these {len(complete)} operators are right:", "", *textwrap.wrap(", ".join(complete) + ".", 118), "",
              "Others are imported in part, or not at all:", "", "| operator | right | reason for the others |", "|---|---|---|",
              *partial, "", "## Out of scope", "", "| type or domain | cases |", "|---|---:|"]
    lines += [f"| {scope} | {n} |" for scope, n in scopes.most_common()]
    pathlib.Path(arguments.page).write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True, help="the command weft")
    parser.add_argument("--work", required=True, help="a folder that keeps cases, imported files and results")
    parser.add_argument("--cases", help="an archive that --select has written")
    parser.add_argument("--select", help="writes an archive of one case for each operator")
    parser.add_argument("--page", help="writes the page of the operators that are imported")
    parser.add_argument("--only", default="*", help="a pattern of cases: 'test_relu*'")
    parser.add_argument("--operator", help="operators, separated by commas")
    parser.add_argument("--flags", default="-pthread", help="for the compiler and the linker")
    parser.add_argument("--compiler", default="clang++")
    parser.add_argument("--include", default=str(pathlib.Path(__file__).resolve().parents[2] / "include"))
    parser.add_argument("--launcher", default="", type=shlex.split, help="a command in front of the compiler")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--unit", type=int, default=30, help="the number of cases in one translation unit")
    parser.add_argument("--fresh", action="store_true", help="compile and run again what has not changed")
    parser.add_argument("--every", action="store_true", help="the status is 1 unless every case is right")
    arguments = parser.parse_args()
    arguments.clang = "clang" in arguments.compiler
    arguments.link = [f for f in shlex.split(arguments.flags) if f.endswith((".a", ".so")) or f.startswith("-l")]
    arguments.compile = ["-std=c++20", "-O0", f"-isystem{arguments.include}",
                         *(f for f in shlex.split(arguments.flags) if f not in arguments.link)]
    if arguments.clang:
        arguments.compile += ["-ferror-limit=0", "-ftemplate-backtrace-limit=0"]
    work = pathlib.Path(arguments.work)
    work.mkdir(parents=True, exist_ok=True)
    known = work / "results.json"
    before = json.loads(known.read_text()) if known.exists() else {}
    cases = cases_of(arguments)
    results = {c["name"]: {"status": "out of scope", "reason": c["scope"]} for c in cases if c["scope"]}
    todo = [c for c in cases if not c["scope"]]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, result in zip(todo, pool.map(lambda c: import_case(arguments, c), todo)):
            old = before.get(case["name"], {})
            same = "hash" in result and result["hash"] == old.get("hash") and not arguments.fresh
            results[case["name"]] = old if same else result
        changed = [c for c in todo if "status" not in results[c["name"]]]
        arguments.precompiled = precompile(arguments) if changed else []
        units, text = [[]], 0
        for case in changed:
            size = sum(p.stat().st_size for p in (work / "imported" / identifier(case["name"])).glob("*.?pp"))
            if len(units[-1]) >= arguments.unit or text + size > 150_000:
                units.append([])
                text = 0
            units[-1].append(case)
            text += size

        def settle(unit):
            settle_unit(arguments, unit, results)
            right = sum(results[c["name"]].get("status") == "right" for c in unit)
            print(f"{right} of {len(unit)} right, from {unit[0]['name']}", file=sys.stderr, flush=True)
            known.write_text(json.dumps({**before, **{n: r for n, r in results.items() if "status" in r}}, indent=1))

        list(pool.map(settle, filter(None, units)))
    report(cases, results)
    if arguments.select:
        select(arguments, cases, results)
    if arguments.page:
        write_page(arguments, cases, results)
    return 1 if arguments.every and any(r["status"] != "right" for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
