# SPDX-License-Identifier: BSL-1.0
"""Runs weft import as a user does: what it writes, what it refuses and in which words. The models are encoded here.

usage: import.py WEFT
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

weft = sys.argv[1]
files = pathlib.Path(__file__).parent / "files"
temporary = tempfile.TemporaryDirectory()
made = pathlib.Path(temporary.name)
faults = []


# ---- Protocol Buffers ----

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    if isinstance(value, int):
        return field(5, field(1, name) + field(3, value) + field(20, 2))
    if isinstance(value, float):
        return field(5, field(1, name) + field(2, value) + field(20, 1))
    if isinstance(value, str):
        return field(5, field(1, name) + field(4, value) + field(20, 3))
    if isinstance(value, bytes):
        return field(5, field(1, name) + field(6, value) + field(20, 5))
    return field(5, field(1, name) + b"".join(field(8, n) for n in value) + field(20, 7))


def node(op, inputs, outputs, name="", domain="", **attributes):
    return field(1, b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) +
                 field(4, op) + b"".join(attribute(*a) for a in attributes.items()) + field(7, domain))


def value(number, name, extents, element=1):
    shape = b"".join(field(1, field(1, n) if isinstance(n, int) else field(2, n)) for n in extents)
    return field(number, field(1, name) + field(2, field(1, field(1, element) + field(2, shape))))


def integers(name, numbers):
    return field(5, field(1, len(numbers)) + field(2, 7) + field(8, name) + field(9, struct.pack(f"<{len(numbers)}q", *numbers)))


def floats(name, extents, numbers):
    return field(5, b"".join(field(1, n) for n in extents) + field(2, 1) + field(8, name) +
                 field(9, struct.pack(f"<{len(numbers)}f", *numbers)))


def integers8(name, extents, numbers):
    return field(5, b"".join(field(1, n) for n in extents) + field(2, 3) + field(8, name) + field(9, struct.pack(f"<{len(numbers)}b", *numbers)))


def model(*parts, opset=17, functions=b""):
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(2, opset)) + functions


# ---- runs ----

def run(name, content, *options, status=0):
    (made / (name + ".onnx")).write_bytes(content)
    out = made / "out" / name
    done = subprocess.run([weft, "import", str(made / (name + ".onnx")), "--out", str(out), *options], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != status:
        faults.append(f"{name}: status {done.returncode} in place of {status}: {done.stdout}{done.stderr}")
    if status and (done.stderr.count("\n") != 1 or out.exists()):
        faults.append(f"{name}: needs a message of one line and no files: {done.stderr!r}")
    headers = list(out.glob("*.hpp"))
    return headers[0].read_text() if headers else done.stderr


def refused(name, content, *words, options=()):
    message = run(name, content, *options, status=2)
    faults.extend(f"{name}: {word!r} is not in {message!r}" for word in words if word not in message)


def writes(name, content, *lines, options=()):
    text = run(name, content, *options)
    faults.extend(f"{name}: {line!r} is not in {text}" for line in lines if line not in text)
    return text


x, y = value(11, "x", ["batch", 4]), value(12, "y", ["batch", 4])

# ---- what is written ----

writes("imported", (files / "imported.onnx").read_bytes(), "std::array<blocks_block, 2> blocks;",
       "for (const auto& each : blocks)", "nn::conv2d<3, 4> conv1{.use_bias = false};", "images_dims = dims<dyn<\"batch\">, 8, 8, 3>",
       options=["--program"])
writes("first", (files / "imported.onnx").read_bytes(), "images_dims = dims<dyn<\"batch\">, 3, 8, 8>", options=["--nchw"])
writes("plain", model(node("Relu", ["x"], ["y"]), x, y), "namespace plain {", "auto operator()(const auto& x) const { return let(relu(x)); }")
refused("name", model(node("Relu", ["x"], ["y"]), x, y), "--name relu", "relu_model", options=["--name", "relu"])
writes("operators", model(node("Add", ["x", "one"], ["a"]), node("Mul", ["a", "a"], ["b"]), node("Sub", ["x", "b"], ["y"]),
                          floats("one", [], [1.0]), x, y), "let(x + 1.0f)", "let(x - ")
# Extents are polynomials.
shape = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"], axis=0), node("Mul", ["n", "two"], ["m"]),
         node("Concat", ["m", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])]
writes("shapes", model(*shape, integers("zero", [0]), integers("two", [2]), integers("rest", [-1]), x, y),
       "reshape<dims<dyn<\"batch\"> * extent<2>, 2>>(x)")
writes("fixed", model(*shape, integers("zero", [0]), integers("two", [2]), integers("rest", [-1]), x, y),
       "reshape<dims<6, 2>>(x)", "x_dims = dims<3, 4>", options=["--extent", "batch=3"])
# Integers that are known are computed at import.
z, three = value(12, "z", [], 7), value(11, "three", [3])
writes("remainder", model(node("Mod", ["a", "b"], ["z"], fmod=1), integers("a", [-7, 7]), integers("b", [3, -3]), z), "{-1, 1}")
writes("old_slice", model(node("Slice", ["a"], ["z"], starts=[1], ends=[3]), integers("a", [1, 5, 3]), z, opset=9), "{5, 3}")
writes("backwards", model(node("Slice", ["a", "b", "c", "d", "e"], ["z"]), integers("a", [1, 5, 3]), integers("b", [-100]),
                          integers("c", [-200]), integers("d", [0]), integers("e", [-1]), z), "dims<1>>{1}")
writes("padded", model(node("Pad", ["a", "b"], ["z"]), integers("a", [1, 5, 3]), integers("b", [1, 1]), z), "pad<0, 1, 1>(")
writes("reversed", model(node("Slice", ["three", "b", "c", "d", "e"], ["y"]), integers("b", [-1]), integers("c", [-100]),
                         integers("d", [0]), integers("e", [-1]), three, y), "reverse<0>(three)", "ops/arrays/reverse.hpp")
writes("twelve", model(node("Sum", [f"x{i}" for i in range(12)], ["y"]), *(value(11, f"x{i}", [2]) for i in range(12)), y),
       " + x9 + x10 + x11")
writes("half", model(node("Add", ["x", "h"], ["a"]), node("Exp", ["a"], ["y"]), value(11, "x", [4], 10), value(11, "h", [4], 10),
                     value(12, "y", [4], 10)), "cast<half>(exp(cast<float>(")
writes("half_grid", model(node("AffineGrid", ["x", "s"], ["y"]), integers("s", [1, 1, 2, 3, 4]), value(11, "x", [1, 3, 4], 10),
                          value(12, "y", [1, 2, 3, 4, 3], 10), opset=20), "cast<half>(reshape", "cast<float>(x)", "dims<24, 4>, float,")
writes("half_pool", model(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1] * 4, dilations=[2, 2]),
                          value(11, "x", [1, 1, 6, 6], 10), value(12, "y", [1, 1, 4, 4], 10), opset=19),
       "pad<1, 1, 1>(cast<float>(x))", "{2.0f, 3.0f, 3.0f, 2.0f}", "let(cast<half>(")
# Trained weights of a product and a bias are a layer; names that hide functions or are keywords get a number.
writes("dense", model(node("MatMul", ["relu", "fc.weight"], ["h"]), node("Add", ["h", "fc.bias"], ["float"]),
                      floats("fc.weight", [4, 2], [0.0] * 8), floats("fc.bias", [2], [0.0] * 2),
                      value(11, "relu", [3, 4]), value(12, "float", [3, 2])), "nn::dense<2> fc;", "relu_1")
# Quantized weights are those of a layer between quantized values.
scales = [floats("a", [], [0.5]), floats("b", [2], [0.25, 1.0]), integers8("zero", [], [0]), integers8("three", [], [3]),
          integers8("w", [4, 2], range(8)), value(11, "q", [3, 4], 3), value(12, "y", [3, 2], 3)]
writes("quantized", model(node("QLinearMatMul", ["q", "a", "zero", "w", "b", "zero", "a", "three"], ["y"]), *scales),
       "nn::dense<2> ", "(cast<float>(q) * 0.5f) / 0.5f) + 3.0f, -128.0f, 127.0f)")
alone = field(5, field(1, 2) + field(2, 6) + field(8, "c") + field(9, struct.pack("<2i", 4, -2)))
writes("quantized_gemm", model(node("QGemm", ["q", "a", "zero", "w", "b", "zero", "c", "a", "three"], ["y"], "", "com.microsoft", alpha=0.5),
                               alone, *scales), "0.5f * matmul(", " + 0.5f * ")
writes("all_zeros", model(node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"]), x, value(12, "y", ["batch", 4], 2)),
       "select(step > 0, step, 1)")


# A loop whose body computes or keeps its condition, and begins with `going`.
def loop(body, going, count=20):
    state = [value(11, "i", [], 7), value(11, "c", [], 9), value(11, "s", [3])]
    graph = b"".join([body, node("Add", ["s", "s"], ["t"]), *state, value(12, "d", [], 9), value(12, "t", [3])])
    bool_value = field(5, field(2, 9) + field(8, "going") + field(9, bytes([going])))
    return model(node("Loop", ["n", "going", "x"], ["y"], body=graph), field(5, field(2, 7) + field(8, "n") + field(9, struct.pack("<q", count))),
                 bool_value, floats("most", [], [9.0]), value(11, "x", [3]), value(12, "y", [3]))


kept = node("Identity", ["c"], ["d"])
computed = node("ReduceSum", ["s"], ["m"], keepdims=0) + node("Less", ["m", "most"], ["d"])
writes("loop_never", loop(kept, False), "{ return let(x); }")
# Nodes that are one operation of Weft.
def number(name, x):
    return floats(name, [], [x])


writes("silu", model(node("Sigmoid", ["x"], ["a"]), node("Mul", ["a", "x"], ["y"]), x, y), "let(silu(x))")
writes("relu6", model(node("Clip", ["x", "a", "b"], ["y"]), number("a", 0.0), number("b", 6.0), x, y), "let(relu6(x))")
writes("gelu", model(node("Div", ["x", "r"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
                     node("Mul", ["x", "c"], ["d"]), node("Mul", ["half", "d"], ["y"]), number("r", 2 ** 0.5), number("one", 1.0),
                     number("half", 0.5), x, y), "let(gelu(x))")
writes("norm", model(node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["d"]), node("Pow", ["d", "two"], ["s"]),
                     node("ReduceMean", ["s"], ["v"], axes=[-1]), node("Add", ["v", "e"], ["w"]), node("Sqrt", ["w"], ["r"]),
                     node("Div", ["d", "r"], ["n"]), node("Mul", ["n", "g.weight"], ["o"]), node("Add", ["o", "g.bias"], ["y"]),
                     number("two", 2.0), number("e", 0.25), floats("g.weight", [4], [1.0] * 4), floats("g.bias", [4], [0.0] * 4), x, y,
                     opset=13), "nn::layer_norm<> g_1{.epsilon = 0.25};", "let(g_1(x))")
images, rows = value(11, "x", ["batch", 3, 8, 8]), value(12, "y", ["batch", 3])
writes("mean", model(node("GlobalAveragePool", ["x"], ["a"]), node("Flatten", ["a"], ["y"]), images, rows), "let(mean<2, 3>(x))")
heads, scaled = [value(11, n, [2, 5, 12]) for n in "qkv"], number("s", 0.5)
parts = [part for n in "qkv" for part in (node("Reshape", [n, "split"], [n + "4"]), node("Transpose", [n + "4"], [n + "t"], perm=[0, 2, 1, 3]))]
parts[-3] = node("Transpose", ["k4"], ["kt"], perm=[0, 2, 3, 1])
text = writes("attention", model(*parts, node("MatMul", ["qt", "kt"], ["a"]), node("Mul", ["a", "s"], ["b"]), node("Softmax", ["b"], ["c"], axis=-1),
                                 node("MatMul", ["c", "vt"], ["d"]), node("Transpose", ["d"], ["e"], perm=[0, 2, 1, 3]),
                                 node("Reshape", ["e", "whole"], ["y"]), integers("split", [2, 5, 3, 4]), integers("whole", [2, 5, 12]),
                                 scaled, *heads, value(12, "y", [2, 5, 12])), "attention(", "reshape<dims<2, 5, 12>>(transpose<0, 2, 1, 3>(")
if "matmul" in text or ".scale" in text or text.count("transpose<0, 2, 1, 3>(reshape<dims<2, 5, 3, 4>>(") != 3:
    faults.append(f"attention: {text}")
writes("windows", model(node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2]), node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
                        node("Reshape", ["b", "s"], ["y"]), integers("s", [0, 0, -1]), value(11, "x", ["batch", 3, "time", 9]),
                        value(12, "y", ["batch", "steps", 12])), "reshape<dims<dyn<\"batch\">, ", " 12>>(")
# Nodes are one operation only if its result has the extents of theirs, and its mask the places of a triangle.
for axes in ([0, 2], [0, 1, 2]):
    writes("mean_axis", model(node("ReduceMean", ["x"], ["m"], axes=axes), node("Squeeze", ["m"], ["y"], axes=axes[1:]), value(11, "x", [4, 3, 5]),
                              value(12, "y", [1, 3][:4 - len(axes)]), opset=11), "reshape<dims<1")
writes("mean_first", model(node("ReduceMean", ["x"], ["m"], axes=[0, 2]), node("Squeeze", ["m"], ["y"], axes=[0, 2]), value(11, "x", [4, 3, 5]),
                           value(12, "y", [3]), opset=11), "mean<0, 2>(x)")
text = writes("gelu_rank", model(node("Div", ["x", "r"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
                                 node("Mul", ["x", "c"], ["d"]), node("Mul", ["half", "d"], ["y"]), number("r", 2 ** 0.5),
                                 number("one", 1.0), floats("half", [1, 1, 1], [0.5]), x, value(12, "y", [1, "batch", 4])))
triangle = [0.0 if k <= q else float("-inf") for q in range(3) for k in range(3)]
for name, queries, mask, word in [("causal", 3, floats("m", [3, 3], triangle), ".causal = true"),
                                  ("rows", 3, floats("m", [3, 1, 3], triangle), "attention_mask("),
                                  ("queries", 1, value(11, "m", [3, 3]), "softmax")]:
    text += writes(name, model(node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "t"], ["a"]), node("Add", ["a", "m"], ["b"]),
                               node("Softmax", ["b"], ["c"], axis=-1), node("MatMul", ["c", "v"], ["y"]), mask,
                               value(11, "q", [1, 3, queries, 4]), *(value(11, n, [1, 3, 3, 4]) for n in "kv"),
                               value(12, "y", [1, 3, 3, 4])), word)
if "gelu(" in text or text.count(".causal") != 1:
    faults.append(f"extents: {text}")
# Moves that cancel, and a dense layer between them.
writes("moves", model(node("Transpose", ["x"], ["a"], perm=[1, 0, 2]), node("Reshape", ["a", "flat"], ["b"]),
                      node("Gemm", ["b", "f.weight", "f.bias"], ["c"]), node("Reshape", ["c", "rows"], ["d"]),
                      node("Transpose", ["d"], ["y"], perm=[1, 0, 2]), integers("flat", [15, 4]), integers("rows", [5, 3, 2]),
                      floats("f.weight", [4, 2], [0.0] * 8), floats("f.bias", [2], [0.0] * 2), value(11, "x", [3, 5, 4]),
                      value(12, "y", [3, 5, 2])), "let(f(x))")
# Blocks whose names say nothing, blocks in a sequence, and blocks that lack a sum.
def layers(i, x, name="", out=None):
    names = [f"{name}w{i}", f"{name}b{i}", f"{name}v{i}", f"{name}c{i}"]
    return [node("MatMul", [x, names[0]], [f"t{i}0"]), node("Add", [f"t{i}0", names[1]], [f"t{i}1"]), node("Relu", [f"t{i}1"], [f"t{i}2"]),
            node("MatMul", [f"t{i}2", names[2]], [f"t{i}3"]), node("Add", [f"t{i}3", names[3]], [out or f"t{i}4"]),
            *(floats(n, e, [float(i)] * (8 if len(e) > 1 else e[0])) for n, e in zip(names, ([4, 2], [2], [2, 4], [4])))]


writes("nameless", model(*layers(0, "x"), *layers(1, "t04"), *layers(2, "t14", out="y"), x, y), "std::array<blocks_block, 3> blocks;",
       "for (const auto& each : blocks)", "relu(")


def block(i, x, stride, sums):
    at, w = f"/body/body.{i}/", f"body.{i}."
    pads, steps = [1] * 4, [stride] * 2
    return [node("Conv", [x, w + "a.weight"], [f"a{i}"], at + "a/Conv", kernel_shape=[3, 3], pads=pads, strides=steps),
            node("Relu", [f"a{i}"], [f"b{i}"], at + "Relu"),
            node("Conv", [f"b{i}", w + "c.weight"], [f"c{i}"], at + "c/Conv", kernel_shape=[3, 3], pads=pads),
            node("Sigmoid", [f"c{i}"], [f"d{i}" if sums else f"e{i}"], at + "Sigmoid"),
            *([node("Add", [f"d{i}", x], [f"e{i}"], at + "Add")] if sums else []),
            *(floats(w + n, [3, 3, 3, 3], [float(i)] * 81) for n in ("a.weight", "c.weight"))]


writes("sequence", model(*block(0, "x", 2, False), *block(1, "e0", 1, True), *block(2, "e1", 2, False), images,
                         value(12, "e2", ["batch", 3, 2, 2])),
       "template <int Stride, bool Residual>", "if constexpr (Residual)",
       "nn::sequential<body_block<2, false>, body_block<1, true>, body_block<2, false>> body;")
# A function of the model.
called = field(25, field(1, "twice") + field(4, "a") + field(5, "b") + field(7, node("Add", ["a", "a"], ["b"])[2:]) +
               field(10, "mine") + field(9, field(2, 17)))
writes("function", model(node("twice", ["x"], ["y"], domain="mine"), x, y, functions=called), "let(x + x)")

# ---- what is refused ----

# Equal names of constants do not make them equal; exporters merge equal biases, of which each layer has its own.
def constant(name, number):
    tensor = b"".join(field(1, n) for n in [4, 5]) + field(2, 1) + field(9, struct.pack("<20f", *[number] * 20))
    return field(1, field(2, name) + field(4, "Constant") + field(5, field(1, "value") + field(5, tensor) + field(20, 4)))


text = writes("constants", model(constant("a", 1.0), constant("b", 2.0), node("Add", ["z", "a"], ["c"]),
                                 node("Mul", ["c", "b"], ["y"]), value(11, "z", [4, 5]), value(12, "y", [4, 5])))
if text.count("nn::weight<") != 2:
    faults.append(f"constants: needs two variables: {text}")
two = ["a b", "a_b"]
writes("names", model(node("Shape", ["x"], ["s"]), node("Expand", ["z", "s"], ["y"]), value(11, "x", two), value(11, "z", [1, 1]),
                      value(12, "y", two)), 'dims<dyn<"a_b">, dyn<"a_b_1">>')
writes("time", model(node("Relu", ["x"], ["y"]), x, y), "namespace time_model {")

refused("unknown", model(node("Frobnicate", ["x"], ["y"], "here"), x, y), "Frobnicate \"here\" (opset 17)", "not supported")
refused("domain", model(node("Relu", ["x"], ["y"], domain="com.example"), x, y), "com.example.Relu")
refused("attribute", model(node("Relu", ["x"], ["y"], alpha=1.0), x, y), "Relu", "attribute alpha")
refused("constant", model(node("Reshape", ["x", "s"], ["y"]), x, value(11, "s", [2], 7), y), "Reshape", "--constant s=FILE.npy")
refused("no_input", model(node("Relu", ["x"], ["y"]), x, y), "--constant", "no such input", options=["--constant", "z=z.npy"])
refused("extents", model(node("Add", ["x", "z"], ["y"]), x, value(11, "z", ["batch", 3]), y), "Add", "[batch, 4] and [batch, 3]")
refused("reshape", model(node("Reshape", ["x", "s"], ["y"]), integers("s", [5, 4]), x, y), "[batch, 4] cannot become [5, 4]", "--extent")
refused("undefined", model(node("Relu", ["z"], ["y"]), x, y), "\"z\"")
refused("later", model(node("Relu", ["a"], ["y"]), node("Relu", ["y"], ["a"]), x, y), "circle")
refused("twice", model(node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"]), x, y), "\"y\" twice")
refused("no_output", model(node("Relu", ["x"], ["z"]), x, y), "output \"y\"")
refused("rank", model(node("Relu", ["x"], ["y"]), value(11, "x", [1] * 9), value(12, "y", [1] * 9)), "more than 8 axes")
refused("endless", model(node("f", ["x"], ["y"], domain="mine"), x, y, functions=field(
    25, field(1, "f") + field(4, "a") + field(5, "b") + field(7, node("f", ["a"], ["b"], domain="mine")[2:]) + field(10, "mine"))),
    "without end")
refused("large", model(node("ConstantOfShape", ["s"], ["a"]), node("Reshape", ["x", "t"], ["y"]), integers("s", [1 << 62]),
                       integers("t", [1 << 62, 1 << 62, -1]), x, y), "too large")
for name, words, part in [
    ("kind", "axis must be an integer", node("Softmax", ["x"], ["y"], axis=1.0)),
    ("word", "\"evil\"", node("Pad", ["x", "s"], ["y"], mode="evil")),
    ("approximate", "\"erf\"", node("Gelu", ["x"], ["y"], approximate="erf")),
    ("letters", "fewer operands", node("Einsum", ["x", "x"], ["y"], equation="ij->i")),
]:
    refused(name, model(part, integers("s", [0] * 4), x, y, opset=20), words)
for name, words, op, numbers in [
    ("several", "several axes of -1", "Reshape", [-1, -1]),
    ("negative", "below 0", "Expand", [-2, 1, 4]),
    ("borders", "below 0", "Pad", [0, -3, 0, -3]),
    ("largest", "k must be", "TopK", [5]),
    ("equal", "different", "Unsqueeze", [0, 0]),
]:
    refused(name, model(node(op, ["x", "s"], ["y"]), integers("s", numbers), value(11, "x", [1, 4]), y), words)
refused("parts", model(node("Split", ["x", "s"], ["y", "z"], axis=1), integers("s", [2, (1 << 63) - 1]), x, y), "parts")
refused("epsilon", model(node("LayerNormalization", ["x", "s"], ["y"], epsilon=float("nan")), floats("s", [4], [1.0] * 4), x, y), "finite")
refused("window", model(node("MaxPool", ["x"], ["y"], kernel_shape=[0, -1], strides=[0, 0]), value(11, "x", [1, 1, 4, 4]), y), "positive")
refused("axes", model(node("Transpose", ["x"], ["y"], perm=[1, 1]), x, y), "each axis once")
chain = b"".join(field(25, field(1, f"f{i}") + field(4, "a") + field(5, "b") + field(7, node(f"f{i + 1}", ["a"], ["c"], domain="mine")[2:]) +
                      field(7, node(f"f{i + 1}", ["c"], ["b"], domain="mine")[2:]) + field(10, "mine")) for i in range(40))
refused("doubling", model(node("f0", ["x"], ["y"], domain="mine"), x, y, functions=chain), "functions")
refused("division", model(node("Div", ["a", "b"], ["c"]), node("Reshape", ["x", "c"], ["y"]), integers("a", [-1 << 63]),
                          integers("b", [-1]), x, y), "too large")
refused("text", model(node("Expand", ["t", "s"], ["y"]), field(5, field(1, 1) + field(2, 8) + field(8, "t") + field(6, "abc")),
                      integers("s", [3]), value(12, "y", [3], 8)), "STRING", "not supported")
refused("scales", model(node("QLinearMatMul", ["q", "a", "zero", "w", "c", "zero", "a", "three"], ["y"]), floats("c", [3], [1.0] * 3), *scales),
        "DequantizeLinear", "the extent of the axis")
refused("nothing", model(node("Relu", ["x"], ["y"]), x), "no outputs")
refused("old", model(node("Relu", ["x"], ["y"]), x, y, opset=3), "opset")
refused("damaged", model(node("Relu", ["x"], ["y"]), x, y)[:-3])
# Each prefix of a file ends in a message, not in a crash.
whole = (files / "imported.onnx").read_bytes()
for size in range(0, len(whole), 97):
    refused(f"cut_{size}", whole[:size])

# Texts are formatted.
root = pathlib.Path(__file__).parents[2]
for program in ["clang-format", "clang-format-19", root / "build/clang-format/clang_format/data/bin/clang-format"]:
    try:
        if " 19." not in subprocess.run([program, "--version"], capture_output=True, text=True).stdout:
            continue
    except OSError:
        continue
    done = subprocess.run([program, f"--style=file:{root / '.clang-format'}", "--dry-run", "--Werror",
                           *sorted(made.glob("out/*/*.[hc]pp"))], capture_output=True, text=True)
    faults.extend([done.stderr] if done.returncode else [])
    break
else:
    print("not checked: no clang-format 19")

# Loops are not formatted as clang-format does.
writes("loop", loop(kept, True), "scan(", "range<std::int64_t, 20>")
writes("loop_break", loop(computed, True), "while_loop(", ".max_iterations = 20")
writes("loop_small", loop(computed, True, 3), "while_loop(", ".max_iterations = 3")
writes("loop_endless", loop(computed, True, (1 << 63) - 1), "}, constant(g, tensor<std::int64_t>(0))")

print("\n".join(faults) if faults else "ok")
sys.exit(1 if faults else 0)
