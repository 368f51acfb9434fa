# SPDX-License-Identifier: BSL-1.0
"""Checks that the ImageNet program computes PyTorch's logits, has the published sizes, learns alone and with other
workers from folders and TFRecord files, and what it says when something is wrong.

usage: imagenet.py PROGRAM LAUNCHER       (from the source folder, where PyTorch's values are)
"""
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

from checks import data, faults, finish, program, refused, run, training_flags

launcher = sys.argv[2]
here = "test/examples/imagenet/tiny_resnet18"
tiny = ("--model", "tiny_resnet18")

# ---- flags ----
training_flags("model", "weights", "npy_in", "image_dir", "records", "strategy", "hosts", "momentum", "label_smoothing")
refused(["--model", "resnet51", "resnet50, inception_v3"], "--model", "resnet51")
refused(["--npy_in", "--npy_out"], "--npy_in", "x.npy")
refused(["--npy_in", "--weights"], "--npy_in", "x.npy", "--npy_out", "y.npy")
for strategy in ["async", "sync", "allreduce", "mpi"]:
    refused(["--weights", "--strategy local"], "--weights", f"{here}.safetensors", "--strategy", strategy)
refused(["--label_smoothing", "1", "below 1"], "--label_smoothing", "1")
refused(["--weight_decay", "-1"], "--weight_decay", "-1")
refused(["32 x 32", "resnet18 requires 224 x 224"], "--model", "resnet18", "--weights", f"{here}.safetensors", "--npy_in",
        f"{here}_x.npy", "--npy_out", "y.npy")

# ---- sizes: those that torchvision publishes ----
for model, parameters, multiply_adds in (("resnet18", 11_689_512, 1_814_073_344), ("resnet50", 25_557_032, 4_089_184_256),
                                         ("inception_v3", 27_161_264, 5_713_216_096)):
    done, took = run("--model", model, "--describe", seconds=60)
    wanted = f"parameters {parameters}, multiply-adds {multiply_adds}"
    said = done.stdout.splitlines() if done else [""]
    print(f"{took:5.2f} s  {model}: {said[-1]}")
    if said[-1] != wanted:
        faults.append(f"{model}: {said[-1]!r} where {wanted!r} is published")
    if not any(line.startswith("layer ") for line in said):
        faults.append(f"{model}: there is no table")


def floats(path):
    """The elements of a .npy file of floats, of format 1.0."""
    content = open(path, "rb").read()
    begin = 10 + struct.unpack_from("<H", content, 8)[0]
    return struct.unpack(f"<{(len(content) - begin) // 4}f", content[begin:])


# ---- PyTorch's logits ----
with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "y.npy")
    for batch in ("100", "3"):
        done, took = run(*tiny, "--weights", f"{here}.safetensors", "--npy_in", f"{here}_x.npy", "--npy_out", out,
                         "--batch_size", batch)
        if done is None or done.returncode:
            faults.append(f"inference: {done}")
            continue
        found, wanted = floats(out), floats(f"{here}_y.npy")
        apart = max(abs(a - b) for a, b in zip(found, wanted)) / max(map(abs, wanted))
        print(f"{took:5.2f} s  {len(found)} logits, {apart:.1e} from PyTorch's")
        if len(found) != 40 or not apart < 5e-6:
            faults.append(f"inference: logits are {apart} from PyTorch's: {found}")
    refused(["tiny_resnet18.safetensors", "does not match the graph's variables", "net/conv1/weights"],
            "--model", "resnet18", "--weights", f"{here}.safetensors", "--evaluate", "--image_dir", f"{folder}/images")


def crc32c(content):
    crc = 0xffffffff
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def varint(n):
    return (bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7))


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(encoded, label):
    """A tf.train.Example of TensorFlow's build_image_data.py, as a TFRecord."""
    feature = lambda name, kind, content: field(1, field(1, name) + field(2, field(kind, field(1, content))))
    example = field(1, feature(b"image/class/label", 3, varint(label)) + feature(b"image/encoded", 1, encoded))
    length = struct.pack("<Q", len(example))
    return length + crc32c(length) + example + crc32c(example)


def write_records(folder, images, first_label=1):
    os.makedirs(folder)
    for part, prefix in (("train", "train"), ("val", "validation")):
        classes = sorted(os.listdir(os.path.join(images, part)))
        files = [(path, label) for label, name in enumerate(classes, first_label)
                 for path in sorted(glob.glob(os.path.join(images, part, name, "*.jpg")))]
        for shard in range(2):
            with open(os.path.join(folder, f"{prefix}-{shard:05}-of-00002"), "wb") as to:
                for path, label in files[shard::2]:
                    to.write(record(open(path, "rb").read(), label))


def accuracy(done):
    found = re.search(r"test accuracy (\d\.\d+), top-5 (\d\.\d+)", done.stdout) if done and not done.returncode else None
    if not found:
        faults.append(f"there is no test accuracy: {done}")
    return found.groups() if found else None


def learns(name, done):
    """The cost ends below ln 10, that of a network which knows nothing; so many images are recognized."""
    found = re.search(r"test accuracy (0\.\d+).*final cost (\d\.\d+)", done.stdout) if done and not done.returncode else None
    if not found or float(found[1]) < 0.25 or float(found[2]) > 2.3:
        faults.append(f"{name} does not learn: {done}")
    print(f"{name}: {found and found[0]}")


if os.path.isdir(data):
    with tempfile.TemporaryDirectory() as folder:
        there = lambda name: os.path.join(folder, name)
        done, took = run("--make_images", "--image_dir", there("images"), "--images_per_class", "30")
        if done is None or done.returncode or len(os.listdir(there("images/train/bag"))) != 30:
            faults.append(f"--make_images: {done}")
        common = (*tiny, "--threads", "1", "--decode_threads", "1", "--batch_size", "20")
        plain = ("--schedule", "constant", "--augment", "crop")
        from_folder = (*common, "--image_dir", there("images"))

        # ---- alone, and from a checkpoint; the weights at the end are those that are tested ----
        quiet = (*from_folder, *plain, "--progress", "none")
        done, took = run(*quiet, "--train_steps", "24", "--save_weights", there("whole.safetensors"))
        whole = accuracy(done)
        kept = ("--checkpoint_dir", there("kept"))
        accuracy(run(*quiet, *kept, "--train_steps", "11")[0])
        done, took = run(*quiet, *kept, "--resume", "--train_steps", "24", "--save_weights", there("resumed.safetensors"),
                         "--log_dir", there("log"))
        if accuracy(done) != whole or "continues from step 11" not in done.stderr:
            faults.append(f"a run that goes on reaches {done}, another one {whole}")
        elif open(there("whole.safetensors"), "rb").read() != open(there("resumed.safetensors"), "rb").read():
            faults.append("a run that goes on has other weights than one that nobody has stopped")
        refused(["--model tiny_resnet18", "small_resnet18"], "--model", "small_resnet18", *quiet[2:], *kept, "--resume")
        test = (*common, "--evaluate", "--weights", there("whole.safetensors"))
        if whole and accuracy(run(*test, "--image_dir", there("images"))[0]) != whole:
            faults.append("--evaluate measures another accuracy than the run that saved the weights")
        logged = b"".join(open(file, "rb").read() for file in glob.glob(there("log/events.out.tfevents.*")))
        for tag in (b"cost", b"test/accuracy", b"test/top_5", b"images/image/0", b"net/conv1/weights"):
            if tag not in logged:
                faults.append(f"the event files do not have {tag}")

        # ---- the recipe of Inception: RMSProp, decay by staircase, weight decay, averages ----
        recipe = ("--optimizer", "rmsprop", "--decay", "0.9", "--momentum", "0.9", "--epsilon", "1.0", "--learning_rate",
                  "0.045", "--schedule", "staircase:0.94/2epochs", "--augment", "color", "--train_steps", "200")
        learns("rmsprop", run(*from_folder, *recipe, "--progress", "none", seconds=60)[0])
        refused(["gradient_descent", '"momentum"'], *quiet, "--optimizer", "gradient_descent", "--momentum", "0.9")
        refused(["/no/such/folder"], *common, "--strategy", "allreduce", "--hosts", "localhost", "--image_dir",
                "/no/such/folder")

        # ---- records: the same images have the same accuracy ----
        write_records(there("records"), there("images"))
        if whole and accuracy(run(*test, "--records", there("records"))[0]) != whole:
            faults.append("images in records have another accuracy than images in a folder")
        from_records = (*common, "--records", there("records"), "--shuffle_buffer", "100")
        learns("records", run(*from_records, "--train_steps", "120", "--learning_rate", "0.01", *plain, "--progress", "none")[0])
        write_records(there("from_0"), there("images"), first_label=0)
        refused(["image/class/label", "is 0", "1 to 10"], *test, "--records", there("from_0"))
        with open(there("from_0/train-00000-of-00002"), "r+b") as file:
            file.truncate(5)
        refused(["train-00000-of-00002", "ends inside a record"], *common, "--records", there("from_0"))

        # ---- two workers ----
        for strategy, servers, source in (("sync", 1, from_folder), ("allreduce", 0, from_records), ("async", 1, from_folder)):
            command = [launcher, "-n", str(2 + servers), *(["--ps", "1"] if servers else []), "--", program, "--strategy",
                       strategy, *source, *plain, "--train_steps", "240", "--learning_rate", "0.01", "--progress", "none",
                       "--save_weights", there(f"{strategy}.safetensors")]
            try:
                done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            except subprocess.TimeoutExpired as late:
                faults.append(f"{strategy}: still runs: {late}")
                continue
            learns(strategy, done)
            if f"2 workers, {strategy}" not in done.stdout:
                faults.append(f"{strategy}: {done}")
            reached = accuracy(done)
            if reached and accuracy(run(*common, "--evaluate", "--weights", there(f"{strategy}.safetensors"), "--image_dir",
                                        there("images"))[0]) != reached:
                faults.append(f"{strategy}: the saved weights have another accuracy than the run")
finish()
