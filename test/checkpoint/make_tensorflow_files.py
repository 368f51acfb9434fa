# SPDX-License-Identifier: BSL-1.0
"""Writes small checkpoints by TensorFlow into tensorflow/, for tensorflow_checkpoint.cpp.

usage: make_tensorflow_files.py        (needs TensorFlow, and cramjam for Snappy)

Elements are those of make_npy_files.py. Two checkpoints are TensorFlow's with another index, as TensorFlow writes it on
other machines or wrote it in other versions; TensorFlow reads each of them again before it is taken.
"""
import os
import pathlib
import struct

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import cramjam
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
folder = pathlib.Path(__file__).parent / "tensorflow"
TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
         "float32", "float64"]


def array(type_, *extents):
    i = np.arange(int(np.prod(extents)))
    values = (7 * i) % 13 - 5
    if type_ == "bool":
        values = (7 * i) % 2
    elif type_.startswith("uint"):
        values = abs(values)
    return values.reshape(extents).astype(tf.as_dtype(type_).as_numpy_dtype)


def by_saver(prefix):
    """Variables of all types on two devices, so in two shards, and partitioned ones."""
    with tf.Graph().as_default():
        with tf1.device("/cpu:0"):
            for type_ in TYPES:
                tf1.get_variable(f"types/{type_}", initializer=array(type_, 3, 4))
        with tf1.device("/cpu:1"):
            tf1.get_variable("global_step", initializer=array("int64"))
            tf1.get_variable("text", initializer=np.array(["a", "bc"]))
            tf1.get_variable("complex", initializer=np.array([1j], np.complex64))
            tf1.get_variable("empty", initializer=array("float32", 0, 5))
            tf1.get_variable("nine_axes", initializer=array("float32", *[1] * 9))

        def partitioned(name, value, axis, parts):
            def initializer(shape, dtype, partition_info):
                cut = tuple(slice(o, o + n) for o, n in zip(partition_info.var_offset, shape))
                return tf.constant(value[cut], dtype)
            tf1.get_variable(name, value.shape, tf.as_dtype(value.dtype), initializer, use_resource=False,
                             partitioner=tf1.fixed_size_partitioner(parts, axis=axis))

        partitioned("parts/rows", array("float32", 10, 4), 0, 3)
        partitioned("parts/columns", array("float64", 3, 7, 2), 1, 4)
        partitioned("parts/long", array("int8", 16500), 0, 2)
        partitioned("parts/middle", array("int32", 200, 2), 0, 3)
        saver = tf1.train.Saver(sharded=True)
        config = tf1.ConfigProto(device_count={"CPU": 2})
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            saver.save(session, str(prefix), write_meta_graph=False, write_state=False)


def by_object(prefix):
    """tf.train.Checkpoint, of TensorFlow 2."""
    objects = tf.train.Checkpoint(step=tf.Variable(7, dtype=tf.int64), kernel=tf.Variable(array("float32", 5, 3)))
    objects.write(str(prefix))


# ---- tables of LevelDB's format, as far as TensorFlow writes them ----


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def take_varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return number, at


def entries(data, offset, size):
    block = data[offset:offset + size]
    end, at, key = size - 4 - 4 * struct.unpack("<I", block[-4:])[0], 0, b""
    while at < end:
        shared, at = take_varint(block, at)
        more, at = take_varint(block, at)
        length, at = take_varint(block, at)
        key = key[:shared] + block[at:at + more]
        yield key, block[at + more:at + more + length]
        at += more + length


def handle(data, at):
    offset, at = take_varint(data, at)
    size, at = take_varint(data, at)
    return offset, size, at


def read_table(path):
    data = path.read_bytes()
    _, _, at = handle(data, len(data) - 48)
    offset, size, _ = handle(data, at)
    for _, block in entries(data, offset, size):
        yield from entries(data, *handle(block, 0)[:2])


def write_table(path, content, per_block, snappy):
    out = b""

    def put(pairs):
        nonlocal out
        block, last = b"", b""
        for i, (key, value) in enumerate(pairs):
            shared = 0
            while i % 16 and shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
            if i % 16 == 0:
                put.restarts = [len(block)] if i == 0 else put.restarts + [len(block)]
            block += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
            last = key
        restarts = put.restarts if pairs else [0]
        block += b"".join(struct.pack("<I", r) for r in restarts) + struct.pack("<I", len(restarts))
        if snappy:
            block = bytes(cramjam.snappy.compress_raw(block))
        kind = bytes([1 if snappy else 0])
        place = varint(len(out)) + varint(len(block))
        out += block + kind + struct.pack("<I", masked(block + kind))
        return place

    content = list(content)
    index = []
    for i in range(0, len(content), per_block):
        piece = content[i:i + per_block]
        index.append((piece[-1][0], put(piece)))
    footer = put([]) + put(index)
    path.write_bytes(out + footer.ljust(40, b"\0") + struct.pack("<Q", 0xdb4775248b80fb57))


def with_snappy(source, prefix):
    """An index of small blocks, as builds of TensorFlow that compress tables write them. Its shards are the source's."""
    write_table(pathlib.Path(f"{prefix}.index"), read_table(pathlib.Path(f"{source}.index")), 8, True)
    shards = [pathlib.Path(str(prefix) + shard.name[len(source.name):]) for shard in folder.glob(f"{source.name}.data-*")]
    for shard in shards:
        shard.write_bytes((folder / (source.name + shard.name[len(prefix.name):])).read_bytes())
    check(prefix)
    for shard in shards:
        shard.unlink()


def big_endian(prefix):
    """What TensorFlow writes on big-endian machines."""
    value = array("float32", 2, 3).astype(">f4").tobytes()
    shape = b"".join(b"\x12\x02\x08" + bytes([n]) for n in (2, 3))
    entry = b"\x08\x01\x12" + varint(len(shape)) + shape + b"\x28" + varint(len(value)) + b"\x35" + struct.pack(
        "<I", masked(value))
    header = b"\x08\x01\x10\x01\x1a\x02\x08\x01"
    pathlib.Path(f"{prefix}.data-00000-of-00001").write_bytes(value)
    write_table(pathlib.Path(f"{prefix}.index"), [(b"", header), (b"a", entry)], 8, False)


def check(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    for name in reader.get_variable_to_shape_map():
        value = reader.get_tensor(name)
        if name in ("text", "complex", "step/.ATTRIBUTES/VARIABLE_VALUE") or isinstance(value, bytes):
            continue
        expected = array(tf.as_dtype(value.dtype).name, *value.shape)
        assert (value == expected).all(), (prefix, name)
    print(prefix.name, len(reader.get_variable_to_shape_map()), "tensors")


def main():
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    by_saver(folder / "saver")
    by_object(folder / "object")
    with_snappy(folder / "saver", folder / "snappy")
    big_endian(folder / "big_endian")
    for prefix in ("saver", "object", "big_endian"):
        check(folder / prefix)


if __name__ == "__main__":
    main()
