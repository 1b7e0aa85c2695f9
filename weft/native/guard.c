/* Guarded: a function of jaxlib's that recurs into containers.

   Where it fails, at whatever error of a container, jaxlib leaves Python's count of nested calls as
   it was at that container: some hundred errors later no Python code runs any more. Here the count is
   put back. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function, *explain;
} Guarded;

/* How many nested calls of C functions Python still allows in this thread, if it counts them so. */
static int *calls_left(void)
{
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX < 0x030C0000
    return &thread->recursion_remaining;
#elif PY_VERSION_HEX < 0x030E0000
    return &thread->c_recursion_remaining;
#else
    (void)thread;
    return NULL;
#endif
}

static PyObject *guarded_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Guarded *guarded = (Guarded *)self;
    int *left = calls_left(), before = left == NULL ? 0 : *left;
    PyObject *result = PyObject_Vectorcall(guarded->function, args, nargsf, names);
    if (result != NULL)
        return result;
    if (left != NULL)
        *left = before;
    if (PyVectorcall_NARGS(nargsf) && (PyErr_ExceptionMatches(PyExc_RecursionError) ||
                                       PyErr_ExceptionMatches(PyExc_SystemError) ||
                                       PyErr_ExceptionMatches(PyExc_ValueError)))
        with_error(guarded->explain, args[0]);
    return NULL;
}

static int guarded_traverse(Guarded *guarded, visitproc visit, void *arg)
{
    Py_VISIT(guarded->function);
    Py_VISIT(guarded->explain);
    return 0;
}

static void guarded_dealloc(Guarded *guarded)
{
    PyObject_GC_UnTrack(guarded);
    Py_CLEAR(guarded->function);
    Py_CLEAR(guarded->explain);
    Py_TYPE(guarded)->tp_free((PyObject *)guarded);
}

PyTypeObject Guarded_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "weft.native._calls.Guarded",
    .tp_basicsize = sizeof(Guarded),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Guarded, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = (traverseproc)guarded_traverse,
    .tp_dealloc = (destructor)guarded_dealloc,
};

/* guarded(function, explain): explain(tree, error) is called with what may come from a RecursionError, and
   may raise another error. */
PyObject *guarded(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *function, *explain;
    if (!PyArg_ParseTuple(given, "OO", &function, &explain))
        return NULL;
    Guarded *made = (Guarded *)Guarded_Type.tp_alloc(&Guarded_Type, 0);
    if (made == NULL)
        return NULL;
    made->vectorcall = guarded_call;
    made->function = Py_NewRef(function);
    made->explain = Py_NewRef(explain);
    return (PyObject *)made;
}
