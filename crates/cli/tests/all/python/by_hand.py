"""Reads Arrow's C stream interface by its specification, with nothing but Python's own library: a
second opinion about what other libraries get. https://arrow.apache.org/docs/format/CStreamInterface.html
"""

import ctypes as c
import json


class Schema(c.Structure):
    pass


Schema._fields_ = [
    ("format", c.c_char_p),
    ("name", c.c_char_p),
    ("metadata", c.c_void_p),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    ("children", c.POINTER(c.POINTER(Schema))),
    ("dictionary", c.c_void_p),
    ("release", c.c_void_p),
    ("private_data", c.c_void_p),
]


class Array(c.Structure):
    pass


Array._fields_ = [
    ("length", c.c_int64),
    ("null_count", c.c_int64),
    ("offset", c.c_int64),
    ("n_buffers", c.c_int64),
    ("n_children", c.c_int64),
    ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(c.POINTER(Array))),
    ("dictionary", c.c_void_p),
    ("release", c.CFUNCTYPE(None, c.POINTER(Array))),
    ("private_data", c.c_void_p),
]


class Stream(c.Structure):
    pass


Stream._fields_ = [
    ("get_schema", c.CFUNCTYPE(c.c_int, c.POINTER(Stream), c.POINTER(Schema))),
    ("get_next", c.CFUNCTYPE(c.c_int, c.POINTER(Stream), c.POINTER(Array))),
    ("get_last_error", c.CFUNCTYPE(c.c_char_p, c.POINTER(Stream))),
    ("release", c.c_void_p),
    ("private_data", c.c_void_p),
]

NUMBERS = {"C": c.c_uint8, "S": c.c_uint16, "I": c.c_uint32, "L": c.c_uint64, "t": c.c_int64}

pointer = c.pythonapi.PyCapsule_GetPointer
pointer.restype = c.c_void_p
pointer.argtypes = [c.py_object, c.c_char_p]


def bit(buffer, index):
    return c.cast(buffer, c.POINTER(c.c_uint8))[index // 8] >> (index % 8) & 1


def cells(schema, array):
    """The values of a column."""
    kind = schema.format.decode()
    buffers = array.buffers
    rows = range(array.offset, array.offset + array.length)
    valid = buffers[0] if array.n_buffers else None
    known = [not valid or bit(valid, row) == 1 for row in rows]
    assert array.null_count in (-1, known.count(False))
    if kind == "b":
        found = [bool(bit(buffers[1], row)) for row in rows]
    elif kind in ("u", "z"):
        ends = c.cast(buffers[1], c.POINTER(c.c_int32))
        data = [c.string_at(buffers[2] + ends[row], ends[row + 1] - ends[row])
                if ends[row + 1] > ends[row] else b"" for row in rows]
        found = [one.decode() if kind == "u" else one.hex() for one in data]
    elif kind == "+l":
        ends = c.cast(buffers[1], c.POINTER(c.c_int32))
        items = cells(schema.children[0].contents, array.children[0].contents)
        found = [items[ends[row]:ends[row + 1]] for row in rows]
    else:
        assert kind in NUMBERS or kind == "tsn:UTC", kind
        values = c.cast(buffers[1], c.POINTER(NUMBERS[kind[0]]))
        found = [values[row] for row in rows]
    return [value if is_known else None for value, is_known in zip(found, known)]


def batches(source):
    """Batches of anything that has Arrow's C stream: names of columns, and their values."""
    capsule = source.__arrow_c_stream__()
    stream = c.cast(pointer(capsule, b"arrow_array_stream"), c.POINTER(Stream))
    schema = Schema()
    assert stream.contents.get_schema(stream, schema) == 0
    assert schema.format == b"+s"
    columns = [schema.children[index].contents for index in range(schema.n_children)]
    while True:
        array = Array()
        if stream.contents.get_next(stream, array) != 0:
            raise RuntimeError(stream.contents.get_last_error(stream).decode())
        if not array.release:
            return
        assert array.offset == 0 and array.n_children == len(columns)
        yield {column.name.decode(): cells(column, array.children[index].contents)
               for index, column in enumerate(columns)}
        array.release(array)


def rows(source):
    """Rows, without what is null."""
    for batch in batches(source):
        for row in zip(*batch.values()):
            yield {name: value for name, value in zip(batch, row) if value is not None}


def show(source):
    """Prints rows as lines of JSON."""
    for row in rows(source):
        print(json.dumps(row))
