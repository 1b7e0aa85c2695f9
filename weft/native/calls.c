/* KnownCalls: the base class of jitted functions. A call that was made before runs from here; every
   other one goes to the method `_unknown_call`. And the module. */

#include "native.h"

/* Entries of one hash: calls that differ in what the hash leaves out. */
#define MOST_OF_ONE_HASH 16
#define ON_STACK 64

typedef struct {
    PyObject_HEAD
    PyObject *last;  /* the entry of the last call, or NULL */
    PyObject *table; /* hash -> list of entries, or NULL */
} KnownCalls;

static PyObject *call_name;

/* ---- finding ---- */

static size_t mixed(size_t hash, size_t number)
{
    return (hash ^ number) * (size_t)1099511628211u;
}

static size_t mixed_in(size_t hash, PyObject *object)
{
    return mixed(hash, (size_t)object >> 4);
}

/* A hash of some keys of a dictionary, whatever their order; a large one is told by its size. */
static size_t hash_of_keys(PyObject *dict)
{
    size_t hash = 16 * (size_t)PyDict_GET_SIZE(dict);
    Py_ssize_t place = 0;
    PyObject *key;
    if (PyDict_GET_SIZE(dict) <= 8)
        while (PyDict_Next(dict, &place, &key, NULL))
            if (PyUnicode_CheckExact(key))
                hash += (size_t)PyObject_Hash(key);
    return hash;
}

/* Whether the value of an argument is in the hash of a call. */
static int is_static(PyObject *value, int *integers)
{
    if (!PyLong_CheckExact(value))
        return PyUnicode_CheckExact(value);
    if (integers == NULL)
        return 0;
    ++*integers;
    return 1;
}

/* A hash of the arguments and of the settings that costs little: it does not look far into trees.
   Static arguments have an entry for each value, so that integers are in it with theirs; where they
   are operands they are left out, `integers` being NULL, else how many there are is added there. */
static PyObject *hash_of(PyObject *args, PyObject *kwargs, PyObject *settings, int *integers)
{
    size_t hash = mixed_in(14695981039346656037u, settings);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *value = PyTuple_GET_ITEM(args, i);
        hash = mixed_in(hash, (PyObject *)Py_TYPE(value));
        if (Py_IS_TYPE(value, arrays.type)) {
            PyObject *signature = SLOT(value, arrays.signature);
            if (signature != NULL && PyTuple_CheckExact(signature))
                for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(signature); k++)
                    hash = mixed_in(hash, PyTuple_GET_ITEM(signature, k));
            else
                hash = mixed_in(hash, signature);
        } else if (PyDict_CheckExact(value)) {
            hash = mixed(hash, hash_of_keys(value));
        } else if (is_static(value, integers)) {
            hash = mixed(hash, (size_t)PyObject_Hash(value));
        }
    }
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs)) {
        Py_ssize_t place = 0;
        PyObject *key, *value;
        hash = mixed(hash, (size_t)PyDict_GET_SIZE(kwargs));
        while (PyDict_Next(kwargs, &place, &key, &value))
            if (is_static(value, integers))
                hash += (size_t)PyObject_Hash(value); /* the order of keywords does not matter */
    }
    return PyLong_FromSize_t(hash);
}

static PyObject *run_if_same(PyObject *entry, PyObject *args, PyObject *kwargs, PyObject *settings,
                             PyObject *mesh, int *same)
{
    PyObject *small[ON_STACK], **leaves = small, *result = NULL;
    Py_ssize_t count = entry_leaves(entry);
    if (count > ON_STACK)
        leaves = PyMem_Malloc(count * sizeof(PyObject *));
    if (leaves == NULL) {
        *same = -1;
        return PyErr_NoMemory();
    }
    memset(leaves, 0, count * sizeof(PyObject *));
    *same = entry_matches(entry, args, kwargs, settings, mesh, leaves);
    if (*same == 1)
        result = entry_run(entry, leaves);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(leaves[i]);
    if (leaves != small)
        PyMem_Free(leaves);
    return result;
}

/* The result of another entry than `last`, as of `known`. */
static PyObject *found_in(PyObject *table, KnownCalls *self, PyObject *last, PyObject *args,
                          PyObject *kwargs, PyObject *settings, PyObject *mesh, int *integers,
                          int *same)
{
    PyObject *result = NULL, *hash = hash_of(args, kwargs, settings, integers);
    PyObject *row = hash == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(table, hash));
    Py_XDECREF(hash);
    if (row == NULL) {
        *same = PyErr_Occurred() ? -1 : 0;
        return NULL;
    }
    for (Py_ssize_t i = 0; *same == 0 && i < PyList_GET_SIZE(row); i++) {
        PyObject *entry = Py_NewRef(PyList_GET_ITEM(row, i));
        if (entry != last) {
            /* Before it runs: that may end in another call of this function. Not where all calls
               were forgotten meanwhile. */
            if (self->table == table)
                Py_XSETREF(self->last, Py_NewRef(entry));
            result = run_if_same(entry, args, kwargs, settings, mesh, same);
        }
        Py_DECREF(entry);
    }
    Py_DECREF(row);
    return result;
}

/* The result of a call that is known; NULL with an exception, or with `*same` not 1. Looking at
   arguments and collecting garbage may run anything, and so make the function forget its calls:
   everything is held by references of our own. */
static PyObject *known(KnownCalls *self, PyObject *args, PyObject *kwargs, int *same)
{
    PyObject *last = Py_NewRef(self->last), *table = Py_XNewRef(self->table);
    PyObject *result = NULL, *mesh = NULL, *settings = settings_in_force();
    *same = 0;
    if (settings == NULL || PyContextVar_Get(context.mesh, Py_None, &mesh) < 0) {
        *same = PyErr_Occurred() ? -1 : 0;
    } else {
        result = run_if_same(last, args, kwargs, settings, mesh, same);
        int integers = 0;
        if (*same == 0 && table != NULL)
            result = found_in(table, self, last, args, kwargs, settings, mesh, &integers, same);
        if (*same == 0 && integers)
            result = found_in(table, self, last, args, kwargs, settings, mesh, NULL, same);
    }
    Py_XDECREF(settings);
    Py_XDECREF(mesh);
    Py_XDECREF(table);
    Py_DECREF(last);
    return result;
}

static PyObject *known_calls_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    int same = 0;
    if (((KnownCalls *)self)->last != NULL) {
        PyObject *result = known((KnownCalls *)self, args, kwargs, &same);
        if (same == 1 || !without_error())
            return result;
    }
    PyObject *empty = kwargs == NULL ? PyDict_New() : Py_NewRef(kwargs);
    if (empty == NULL)
        return NULL;
    PyObject *given[] = {self, args, empty};
    PyObject *result = PyObject_VectorcallMethod(call_name, given, 3, NULL);
    Py_DECREF(empty);
    return result;
}

/* ---- learning ---- */

/* The row of the table for a hash, a new reference; made if there is none. */
static PyObject *row_of(PyObject *table, PyObject *hash)
{
    PyObject *row = Py_XNewRef(PyDict_GetItemWithError(table, hash));
    if (row != NULL || PyErr_Occurred() || (row = PyList_New(0)) == NULL)
        return row;
    if (PyDict_SetItem(table, hash, row) < 0)
        Py_CLEAR(row);
    return row;
}

/* learn_call(args, kwargs, (tokens, leaves, run, consts, kept)) */
static PyObject *learn_call(KnownCalls *self, PyObject *given)
{
    PyObject *args, *kwargs, *spec, *mesh = NULL, *entry = NULL, *hash = NULL, *row = NULL;
    if (!PyArg_ParseTuple(given, "O!O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs,
                          &PyTuple_Type, &spec))
        return NULL;
    PyObject *settings = settings_in_force(), *table = NULL;
    int integers = 0;
    if (settings != NULL && PyContextVar_Get(context.mesh, Py_None, &mesh) == 0)
        entry = entry_new(spec, settings, mesh);
    if (entry != NULL)
        hash = hash_of(args, kwargs, settings, entry_takes_numbers(entry) ? NULL : &integers);
    if (hash != NULL) {
        table = self->table == NULL ? PyDict_New() : Py_NewRef(self->table);
        if (self->table == NULL)
            self->table = Py_XNewRef(table);
    }
    if (table != NULL)
        row = row_of(table, hash);
    if (row != NULL && PyList_GET_SIZE(row) >= MOST_OF_ONE_HASH)
        PyList_SetSlice(row, 0, 1, NULL);
    if (row != NULL && !PyErr_Occurred() && PyList_Append(row, entry) == 0 && self->table == table)
        Py_XSETREF(self->last, Py_NewRef(entry));
    Py_XDECREF(row);
    Py_XDECREF(table);
    Py_XDECREF(hash);
    Py_XDECREF(entry);
    Py_XDECREF(mesh);
    Py_XDECREF(settings);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static int known_calls_clear(KnownCalls *self)
{
    Py_CLEAR(self->last);
    Py_CLEAR(self->table);
    return 0;
}

static PyObject *forget_calls(KnownCalls *self, PyObject *Py_UNUSED(none))
{
    known_calls_clear(self);
    Py_RETURN_NONE;
}

static int known_calls_traverse(KnownCalls *self, visitproc visit, void *arg)
{
    Py_VISIT(self->last);
    Py_VISIT(self->table);
    return 0;
}

static void known_calls_dealloc(KnownCalls *self)
{
    PyObject_GC_UnTrack(self);
    known_calls_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef known_calls_methods[] = {
    {"learn_call", (PyCFunction)learn_call, METH_VARARGS,
     "Remembers a call: learn_call(args, kwargs, (tokens, leaves, run, consts, kept))."},
    {"forget_calls", (PyCFunction)forget_calls, METH_NOARGS, "Forgets all calls."},
    {NULL},
};

PyTypeObject KnownCalls_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "weft.native._calls.KnownCalls",
    .tp_doc = "Runs calls that were made before; hands others to its method _unknown_call(args, kwargs).",
    .tp_basicsize = sizeof(KnownCalls),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_call = known_calls_call,
    .tp_methods = known_calls_methods,
    .tp_new = PyType_GenericNew,
    .tp_traverse = (traverseproc)known_calls_traverse,
    .tp_clear = (inquiry)known_calls_clear,
    .tp_dealloc = (destructor)known_calls_dealloc,
};

/* ---- the module ---- */

static PyMethodDef functions[] = {
    {"use_arrays", use_arrays, METH_VARARGS,
     "Says what an array is: use_arrays(Array, ndarray, explain_failure, trim)."},
    {"use_context", use_context, METH_VARARGS,
     "Says what a call depends on: use_context(trace, settings, mesh, names of weft.config)."},
    {"guarded", guarded, METH_VARARGS,
     "A function of jaxlib's that recurs: guarded(function, explain)."},
    {"use_gate", use_gate, METH_O, "Has a function called before each run, from now on."},
    {"compiled_bind", compiled_bind, METH_VARARGS,
     "The method `bind`: compiled_bind(Primitive, the method in Python, Program, array_values)."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "weft.native._calls",
    .m_doc = "The compiled path of calls that were made before.",
    .m_size = 0, /* PyInit__calls is called for each interpreter, so that it can refuse */
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__calls(void)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "weft.native._calls is for the main interpreter alone");
        return NULL;
    }
    call_name = PyUnicode_InternFromString("_unknown_call");
    if (call_name == NULL || PyType_Ready(&Run_Type) < 0 || PyType_Ready(&Entry_Type) < 0 ||
        PyType_Ready(&KnownCalls_Type) < 0 || PyType_Ready(&Method_Type) < 0 ||
        PyType_Ready(&Guarded_Type) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddObjectRef(module, "Run", (PyObject *)&Run_Type) < 0 ||
        PyModule_AddObjectRef(module, "KnownCalls", (PyObject *)&KnownCalls_Type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
