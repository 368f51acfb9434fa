# SPDX-License-Identifier: BSL-1.0
"""Checks each model of a folder with ONNX's checker, and compares the outputs that ONNX Runtime computes with those of a
session: FOLDER/NAME.onnx, NAME.in0.npy, NAME.out0.npy, NAME.tolerance. Exits with 77 if a package is missing."""
import pathlib
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"models are not compared with ONNX Runtime: {missing}")
    sys.exit(77)

wrong = 0
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("*.onnx")):
    def array(role, k):
        return numpy.load(folder / f"{path.stem}.{role}{k}.npy")

    try:
        tolerance = float((folder / f"{path.stem}.tolerance").read_text())
        onnx.checker.check_model(str(path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # float, as in Weft
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        given = {x.name: array("in", k) for k, x in enumerate(session.get_inputs())}
        results = session.run(None, given)
        outputs = len(list(folder.glob(f"{path.stem}.out*.npy")))
        assert len(results) == outputs, f"{len(results)} outputs, not {outputs}"
        for k, result in enumerate(results):
            expected = array("out", k)
            assert result.shape == expected.shape, f"output {k}: {result.shape}, not {expected.shape}"
            assert result.dtype == expected.dtype, f"output {k}: {result.dtype}, not {expected.dtype}"
            result, expected = result.astype("float64"), expected.astype("float64")
            largest = numpy.abs(expected[numpy.isfinite(expected)]).max(initial=1)
            numpy.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * largest,
                                          err_msg=f"output {k}")
    except Exception as problem:
        wrong += 1
        print(f"{path.stem}: {str(problem)[:600]}")
print(f"{len(list(folder.glob('*.onnx'))) - wrong} models have equal outputs in ONNX Runtime, {wrong} do not")
sys.exit(1 if wrong else 0)
