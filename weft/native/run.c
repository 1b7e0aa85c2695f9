/* Run: starts an executable on buffers and wraps its results as arrays. */

#include "native.h"

Arrays arrays;

static PyObject *consume_name;

/* Called before each run, where runs are to be refused or held up; NULL as long as they are not. */
static PyObject *gate;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *execute, *handlers, *types, *signatures, *consts;
    PyObject *form;   /* a function of the list of all results; NULL for one result or the list */
    Py_ssize_t index; /* of the one result to return; -1 */
} Run;

int slot_offset(PyTypeObject *type, const char *name, Py_ssize_t *offset)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    if (found == NULL)
        return -1;
    if (!Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%s.%s is not a slot", type->tp_name, name);
        Py_DECREF(found);
        return -1;
    }
    *offset = ((PyMemberDescrObject *)found)->d_member->offset;
    Py_DECREF(found);
    return 0;
}

/* use_arrays(Array, ndarray, explain_failure, trim) */
PyObject *use_arrays(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *type, *ndarray, *explain, *trim;
    if (!PyArg_ParseTuple(given, "O!O!OO", &PyType_Type, &type, &PyType_Type, &ndarray, &explain,
                          &trim))
        return NULL;
    PyTypeObject *array = (PyTypeObject *)type;
    if (slot_offset(array, "_buffer", &arrays.buffer) < 0 ||
        slot_offset(array, "type", &arrays.array_type) < 0 ||
        slot_offset(array, "signature", &arrays.signature) < 0)
        return NULL;
    Py_XSETREF(arrays.type, (PyTypeObject *)Py_NewRef(type));
    Py_XSETREF(arrays.ndarray, (PyTypeObject *)Py_NewRef(ndarray));
    Py_XSETREF(arrays.explain, Py_NewRef(explain));
    Py_XSETREF(arrays.trim, Py_NewRef(trim));
    Py_RETURN_NONE;
}

static PyObject *array_of(PyObject *buffer, PyObject *type, PyObject *signature)
{
    PyObject *array = arrays.type->tp_alloc(arrays.type, 0);
    if (array == NULL)
        return NULL;
    SLOT(array, arrays.buffer) = Py_NewRef(buffer);
    SLOT(array, arrays.array_type) = Py_NewRef(type);
    SLOT(array, arrays.signature) = Py_NewRef(signature);
    return array;
}

/* Calls a function with the exception that is set; sets another one if it raises. Exceptions that
   are no errors (KeyboardInterrupt) stay as they are. */
void with_error(PyObject *function, PyObject *first)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyObject *type, *value, *traceback, *done;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    if (first == NULL)
        done = PyObject_CallOneArg(function, value);
    else
        done = PyObject_CallFunctionObjArgs(function, first, value, NULL);
    if (done == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return;
    }
    Py_DECREF(done);
    Py_XDECREF(traceback); /* the function may have changed it */
    PyErr_Restore(type, value, PyException_GetTraceback(value));
}

/* Removes the library's own frames from the exception that is set. */
void trim_error(void)
{
    with_error(arrays.trim, NULL);
}

/* Whether the path in Python goes on: it then says what is wrong. Returns 0 where an exception is set
   that is no error (KeyboardInterrupt). */
int without_error(void)
{
    if (PyErr_Occurred() != NULL && !PyErr_ExceptionMatches(PyExc_Exception))
        return 0;
    PyErr_Clear();
    return 1;
}

/* Replaces the exception that is set where an array among these was deleted. */
static void explain_error(Run *run, PyObject *args)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *given = args == NULL ? PyTuple_New(0) : PySequence_Tuple(args);
    PyObject *all = given == NULL ? NULL : PySequence_Concat(given, run->consts);
    Py_XDECREF(given);
    if (all == NULL)
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    if (all != NULL)
        with_error(arrays.explain, all);
    Py_XDECREF(all);
}

static PyObject *wrapped(Run *run, PyObject *outs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(run->types);
    if (!PyList_Check(outs) || PyList_GET_SIZE(outs) != count) {
        PyErr_SetString(PyExc_RuntimeError, "an executable has other results than its types");
        return NULL;
    }
    if (run->index >= 0)
        return array_of(PyList_GET_ITEM(outs, run->index), PyTuple_GET_ITEM(run->types, run->index),
                        PyTuple_GET_ITEM(run->signatures, run->index));
    PyObject *found = PyList_New(count);
    if (found == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = array_of(PyList_GET_ITEM(outs, i), PyTuple_GET_ITEM(run->types, i),
                                   PyTuple_GET_ITEM(run->signatures, i));
        if (array == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, i, array);
    }
    if (run->form == NULL)
        return found;
    PyObject *formed = PyObject_CallOneArg(run->form, found);
    Py_DECREF(found);
    return formed;
}

/* use_gate(function) */
PyObject *use_gate(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_XSETREF(gate, Py_NewRef(function));
    Py_RETURN_NONE;
}

/* Passes the gate: -1 with the exception that it raises. */
static int pass_gate(void)
{
    PyObject *function = Py_NewRef(gate), *open = PyObject_CallNoArgs(function);
    Py_DECREF(function);
    Py_XDECREF(open);
    return open == NULL ? -1 : 0;
}

/* Runs on a list of buffers; args are the arrays that a failure is explained by, NULL for none. */
PyObject *run_buffers(PyObject *self, PyObject *buffers, PyObject *args)
{
    Run *run = (Run *)self;
    if (gate != NULL && pass_gate() < 0)
        return NULL;
    PyObject *outs = NULL, *started = PyObject_CallOneArg(run->execute, buffers);
    if (started != NULL) {
        PyObject *given[] = {started, run->handlers};
        outs = PyObject_VectorcallMethod(consume_name, given, 2, NULL);
        Py_DECREF(started);
    }
    if (outs == NULL) {
        explain_error(run, args);
        return NULL;
    }
    PyObject *result = wrapped(run, outs);
    Py_DECREF(outs);
    return result;
}

static PyObject *run_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    if (PyVectorcall_NARGS(nargsf) != 2 || (names != NULL && PyTuple_GET_SIZE(names))) {
        PyErr_SetString(PyExc_TypeError, "a Run takes buffers and arrays");
        return NULL;
    }
    return run_buffers(self, args[0], args[1]);
}

/* Run(execute, handlers, types, signatures, consts, form) */
static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *execute, *handlers, *types, *signatures, *consts, *form;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Run takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOO!O!O!O", &execute, &handlers, &PyTuple_Type, &types,
                          &PyTuple_Type, &signatures, &PyTuple_Type, &consts, &form))
        return NULL;
    Py_ssize_t index = -1, count = PyTuple_GET_SIZE(types);
    if (PyLong_CheckExact(form)) {
        index = PyLong_AsSsize_t(form);
        form = Py_None;
        if (index < 0 || index >= count)
            return PyErr_Format(PyExc_IndexError, "there is no result %zd", index);
    }
    if (PyTuple_GET_SIZE(signatures) != count || arrays.type == NULL) {
        PyErr_SetString(PyExc_ValueError, "Run needs a signature for each type, and use_arrays");
        return NULL;
    }
    if (consume_name == NULL)
        consume_name = PyUnicode_InternFromString("consume_with_handlers");
    Run *run = consume_name == NULL ? NULL : (Run *)type->tp_alloc(type, 0);
    if (run == NULL)
        return NULL;
    run->vectorcall = run_vectorcall;
    run->execute = Py_NewRef(execute);
    run->handlers = Py_NewRef(handlers);
    run->types = Py_NewRef(types);
    run->signatures = Py_NewRef(signatures);
    run->consts = Py_NewRef(consts);
    run->form = form == Py_None ? NULL : Py_NewRef(form);
    run->index = index;
    return (PyObject *)run;
}

static int run_traverse(Run *run, visitproc visit, void *arg)
{
    Py_VISIT(run->execute);
    Py_VISIT(run->handlers);
    Py_VISIT(run->types);
    Py_VISIT(run->signatures);
    Py_VISIT(run->consts);
    Py_VISIT(run->form);
    return 0;
}

static int run_clear(Run *run)
{
    Py_CLEAR(run->execute);
    Py_CLEAR(run->handlers);
    Py_CLEAR(run->types);
    Py_CLEAR(run->signatures);
    Py_CLEAR(run->consts);
    Py_CLEAR(run->form);
    return 0;
}

static void run_dealloc(Run *run)
{
    PyObject_GC_UnTrack(run);
    run_clear(run);
    Py_TYPE(run)->tp_free((PyObject *)run);
}

PyTypeObject Run_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "weft.native._calls.Run",
    .tp_doc = "Starts an executable on buffers and wraps its results: run(buffers, arrays).",
    .tp_basicsize = sizeof(Run),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Run, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = run_new,
    .tp_traverse = (traverseproc)run_traverse,
    .tp_clear = (inquiry)run_clear,
    .tp_dealloc = (destructor)run_dealloc,
};
