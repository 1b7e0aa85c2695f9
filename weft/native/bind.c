/* Primitive.bind where no transformation is active and the executable is cached. */

#include "native.h"

static struct {
    PyTypeObject *type, *program;
    PyObject *array_values; /* the set of classes whose values stand for arrays */
    Py_ssize_t eager_cache, run;
} primitives;

/* The key of an application in a primitive's cache: signatures, then pairs of parameters. NULL
   without an exception where an operand is no array. */
static PyObject *key_of(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!Py_IS_TYPE(args[i], arrays.type) || SLOT(args[i], arrays.signature) == NULL ||
            SLOT(args[i], arrays.buffer) == NULL)
            return NULL;
    PyObject *key = PyTuple_New(count + (named > 0));
    if (key == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *signature = SLOT(args[i], arrays.signature);
        if (signature == NULL) { /* making the tuple may collect garbage, and that may run anything */
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SET_ITEM(key, i, Py_NewRef(signature));
    }
    if (named) {
        PyObject *pairs = PyTuple_New(named);
        for (Py_ssize_t i = 0; pairs != NULL && i < named; i++) {
            PyObject *pair = PyTuple_Pack(2, PyTuple_GET_ITEM(names, i), args[count + i]);
            if (pair == NULL)
                Py_CLEAR(pairs);
            else
                PyTuple_SET_ITEM(pairs, i, pair);
        }
        if (pairs == NULL) {
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SET_ITEM(key, count, pairs);
    }
    return key;
}

/* The `_run` of the cached program, a new reference; NULL where there is none, perhaps with an
   exception: the method in Python then says what is wrong. */
static PyObject *cached_run(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    if (PySet_GET_SIZE(primitives.array_values) || !is_off(context.looking) ||
        !is_off(context.vary) || !at_the_bottom())
        return NULL;
    PyObject *key = key_of(args, count, names), *run = NULL;
    if (key == NULL)
        return NULL;
    /* A reference of our own: __hash__ and __eq__ of a parameter may replace the cache. */
    PyObject *cache = Py_XNewRef(SLOT(self, primitives.eager_cache));
    if (cache != NULL && PyDict_CheckExact(cache)) {
        PyObject *program = PyDict_GetItemWithError(cache, key);
        if (program != NULL && Py_IS_TYPE(program, primitives.program))
            run = Py_XNewRef(SLOT(program, primitives.run));
    }
    Py_XDECREF(cache);
    Py_DECREF(key);
    return run;
}

/* A method of primitives: looks like the function in Python that it stands before. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *wrapped;
} Method;

static PyObject *bind(PyObject *method, PyObject *const *given, size_t nargsf, PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf) - 1;
    PyObject *const *args = given + 1;
    PyObject *run = NULL;
    if (names != NULL && !PyTuple_GET_SIZE(names))
        names = NULL;
    if (count >= 0 && PyObject_TypeCheck(given[0], primitives.type))
        run = cached_run(given[0], args, count, names);
    PyObject *buffers = NULL, *operands = NULL, *result = NULL;
    int ready = run != NULL && (buffers = PyList_New(count)) != NULL &&
                (operands = PyTuple_New(count)) != NULL;
    for (Py_ssize_t i = 0; ready && i < count; i++) {
        /* Looking may have run anything, and so have taken the buffer away. */
        PyObject *buffer = SLOT(args[i], arrays.buffer);
        PyTuple_SET_ITEM(operands, i, Py_NewRef(args[i]));
        if (buffer == NULL)
            ready = 0;
        else
            PyList_SET_ITEM(buffers, i, Py_NewRef(buffer));
    }
    if (ready && Py_IS_TYPE(run, &Run_Type))
        result = run_buffers(run, buffers, operands);
    else if (ready)
        result = PyObject_CallFunctionObjArgs(run, buffers, operands, NULL);
    else if (without_error())
        result = PyObject_Vectorcall(((Method *)method)->wrapped, given, nargsf, names);
    Py_XDECREF(buffers);
    Py_XDECREF(operands);
    Py_XDECREF(run);
    return result;
}

static PyObject *method_get(PyObject *method, PyObject *primitive, PyObject *Py_UNUSED(type))
{
    return primitive == NULL ? Py_NewRef(method) : PyMethod_New(method, primitive);
}

static PyObject *method_attribute(PyObject *method, PyObject *name)
{
    if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0)
        return Py_NewRef(((Method *)method)->wrapped);
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
        return PyObject_GenericGetAttr(method, name);
    return PyObject_GetAttr(((Method *)method)->wrapped, name);
}

static int method_traverse(Method *method, visitproc visit, void *arg)
{
    Py_VISIT(method->wrapped);
    return 0;
}

static void method_dealloc(Method *method)
{
    PyObject_GC_UnTrack(method);
    Py_CLEAR(method->wrapped);
    Py_TYPE(method)->tp_free((PyObject *)method);
}

PyTypeObject Method_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "weft.native._calls.Method",
    .tp_basicsize = sizeof(Method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Method, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = method_get,
    .tp_getattro = method_attribute,
    .tp_traverse = (traverseproc)method_traverse,
    .tp_dealloc = (destructor)method_dealloc,
};

/* compiled_bind(Primitive, its bind in Python, Program, array_values): the method. */
PyObject *compiled_bind(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *primitive, *slow, *program, *values;
    if (!PyArg_ParseTuple(given, "O!OO!O!", &PyType_Type, &primitive, &slow, &PyType_Type, &program,
                          &PySet_Type, &values))
        return NULL;
    PyTypeObject *type = (PyTypeObject *)primitive;
    if (slot_offset(type, "eager_cache", &primitives.eager_cache) < 0 ||
        slot_offset((PyTypeObject *)program, "_run", &primitives.run) < 0)
        return NULL;
    Py_XSETREF(primitives.type, (PyTypeObject *)Py_NewRef(primitive));
    Py_XSETREF(primitives.program, (PyTypeObject *)Py_NewRef(program));
    Py_XSETREF(primitives.array_values, Py_NewRef(values));
    Method *method = (Method *)Method_Type.tp_alloc(&Method_Type, 0);
    if (method == NULL)
        return NULL;
    method->vectorcall = bind;
    method->wrapped = Py_NewRef(slow);
    return (PyObject *)method;
}
