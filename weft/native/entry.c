/* Entry: a call that was made before, as a pattern that the arguments of a later call are held
   against, and what runs where they match.

   A pattern is a row of tokens, one for each node and leaf of the arguments, parents first. Nothing
   but exact classes, and arrays whose signatures consist of the same objects, ever matches: what
   does not match takes the Python path, so a pattern may be too narrow but never too wide. */

#include "native.h"

#include <math.h>

Context context;

enum Kind { ARRAY, NUMBER, NUMPY, NONE, DICT, LIST, TUPLE, STATIC, KINDS };

#define MOST_NUMBERS 512
/* A pattern is followed by recursion: deeper arguments, which are rare, have none. known_calls.py
   makes none of more than MOST_LEVELS levels, below the arguments by position or by name. */
#define MOST_LEVELS 64
/* Arguments of a conversion: see `converted`. */
#define MOST_GIVEN 16

typedef struct {
    enum Kind kind;
    Py_ssize_t count; /* children of a node; the index of a leaf */
    /* ARRAY: first is its signature. NUMBER: first is the class, second the buffers of numbers met
       before. NUMPY: first is the dtype, second the shape. DICT: first has the keys. TUPLE: first is
       the class. STATIC: first is the value. */
    PyObject *first, *second;
    /* NUMBER and NUMPY: what makes a buffer of the value. A tuple (function, before, after) is
       called as function(*before, (value,), *after). */
    PyObject *convert;
    long long low, high; /* NUMBER: the range of an int */
} Token;

typedef struct {
    PyObject_HEAD
    PyObject *settings, *mesh, *simulated;
    PyObject *run;    /* a Run, or a function of the list of leaves */
    PyObject *consts; /* buffers of the first operands */
    Py_ssize_t *kept; /* leaves that the executable reads */
    Py_ssize_t num_kept, num_leaves, num_tokens;
    int converts;
    Token *tokens;
} Entry;

static PyObject *dtype_name, *shape_name;

/* ---- what a call depends on besides its arguments ---- */

/* use_context(trace, settings, mesh, config): context variables, and a module's dictionary. */
PyObject *use_context(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *trace, *settings, *mesh, *config;
    if (!PyArg_ParseTuple(given, "O!O!O!O!", &PyContextVar_Type, &trace, &PyContextVar_Type,
                          &settings, &PyContextVar_Type, &mesh, &PyDict_Type, &config))
        return NULL;
    Py_XSETREF(context.global, PyUnicode_InternFromString("_global"));
    Py_XSETREF(context.guarding, PyUnicode_InternFromString("guarding"));
    Py_XSETREF(context.looking, PyUnicode_InternFromString("looking"));
    Py_XSETREF(context.vary, PyUnicode_InternFromString("settings_in_keys"));
    if (!context.global || !context.guarding || !context.looking || !context.vary)
        return NULL;
    Py_XSETREF(context.settings, Py_NewRef(settings));
    Py_XSETREF(context.mesh, Py_NewRef(mesh));
    Py_XSETREF(context.config, Py_NewRef(config));
    Py_XSETREF(context.trace, Py_NewRef(trace)); /* the last one: see at_the_bottom */
    Py_RETURN_NONE;
}

/* Whether a flag of weft.config is False; also 0 with an exception. */
int is_off(PyObject *name)
{
    return context.trace != NULL && PyDict_GetItemWithError(context.config, name) == Py_False;
}

/* Whether no transformation is active; also 0 with an exception. */
int at_the_bottom(void)
{
    PyObject *trace = NULL;
    if (context.trace == NULL || PyContextVar_Get(context.trace, NULL, &trace) < 0)
        return 0;
    Py_XDECREF(trace);
    return trace == NULL || trace == Py_None;
}

/* The settings in force, a new reference; NULL without an exception where a transformation is
   active. */
PyObject *settings_in_force(void)
{
    PyObject *found = NULL;
    if (!at_the_bottom() || PyContextVar_Get(context.settings, NULL, &found) < 0)
        return NULL;
    if (found != NULL && found != Py_None)
        return found;
    Py_XDECREF(found);
    return Py_XNewRef(PyDict_GetItemWithError(context.config, context.global));
}

/* ---- making one ---- */

/* Whether `converted` can call it: a function, or a tuple (function, before, after). */
static int is_conversion(PyObject *convert)
{
    if (!PyTuple_CheckExact(convert))
        return 1;
    if (PyTuple_GET_SIZE(convert) != 3)
        return 0;
    PyObject *before = PyTuple_GET_ITEM(convert, 1), *after = PyTuple_GET_ITEM(convert, 2);
    return PyTuple_CheckExact(before) && PyTuple_CheckExact(after) &&
           PyTuple_GET_SIZE(before) + PyTuple_GET_SIZE(after) < MOST_GIVEN;
}

static int read_token(Token *token, PyObject *given)
{
    int kind;
    PyObject *first, *second, *convert;
    if (!PyTuple_CheckExact(given)) {
        PyErr_SetString(PyExc_TypeError, "a token is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "inOOOLL", &kind, &token->count, &first, &second, &convert,
                          &token->low, &token->high))
        return -1;
    if (kind < 0 || kind >= KINDS || token->count < 0 || !is_conversion(convert)) {
        PyErr_SetString(PyExc_ValueError, "there is no such token");
        return -1;
    }
    token->kind = kind;
    token->first = Py_NewRef(first);
    token->second = Py_NewRef(second);
    token->convert = Py_NewRef(convert);
    return 0;
}

static int are_texts(PyObject *keys, Py_ssize_t count)
{
    if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != count)
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(keys, i)))
            return 0;
    return 1;
}

/* Whether a token is that of a leaf which no token before was that of. */
static int is_leaf(Entry *entry, Token *token, char *seen)
{
    if (token->kind == NUMBER) {
        PyObject *type = token->first;
        if (!PyDict_CheckExact(token->second) ||
            (type != (PyObject *)&PyBool_Type && type != (PyObject *)&PyLong_Type &&
             type != (PyObject *)&PyFloat_Type))
            return 0;
    }
    if (token->count >= entry->num_leaves || seen[token->count])
        return 0;
    seen[token->count] = 1;
    entry->converts |= token->kind != ARRAY;
    return 1;
}

/* Whether the tokens from `at` on are one tree, of at most so many levels; moves `at` behind it. Marks
   the leaves that it has. */
static int is_tree(Entry *entry, Py_ssize_t *at, char *seen, int levels)
{
    if (*at >= entry->num_tokens || levels < 0)
        return 0;
    Token *token = &entry->tokens[(*at)++];
    switch (token->kind) {
    case ARRAY:
    case NUMBER:
    case NUMPY:
        return is_leaf(entry, token, seen);
    case DICT:
        if (!are_texts(token->first, token->count))
            return 0;
        break;
    case TUPLE:
        if (!PyType_Check(token->first) ||
            !PyType_IsSubtype((PyTypeObject *)token->first, &PyTuple_Type))
            return 0;
        break;
    default:
        break;
    }
    if (token->kind == NONE || token->kind == STATIC)
        return 1;
    for (Py_ssize_t i = 0; i < token->count; i++)
        if (!is_tree(entry, at, seen, levels - 1))
            return 0;
    return 1;
}

/* Whether the tokens are two trees, the arguments by position and those by name, which have each leaf
   once. Also 0 with an exception. */
static int is_pattern(Entry *entry)
{
    Py_ssize_t at = 0;
    char *seen = PyMem_Calloc(entry->num_leaves + 1, 1);
    if (seen == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    int found = is_tree(entry, &at, seen, MOST_LEVELS + 1) && at < entry->num_tokens &&
                entry->tokens[at].kind == DICT &&
                is_tree(entry, &at, seen, MOST_LEVELS + 1) && at == entry->num_tokens;
    for (Py_ssize_t i = 0; i < entry->num_leaves; i++)
        found = found && seen[i];
    PyMem_Free(seen);
    return found;
}

/* From (tokens, number of leaves, run, buffers of constants, kept leaves). */
PyObject *entry_new(PyObject *args, PyObject *settings, PyObject *mesh)
{
    PyObject *tokens, *run, *consts, *kept;
    Py_ssize_t leaves;
    if (!PyArg_ParseTuple(args, "O!nOO!O!", &PyTuple_Type, &tokens, &leaves, &run, &PyTuple_Type,
                          &consts, &PyTuple_Type, &kept))
        return NULL;
    if (dtype_name == NULL)
        dtype_name = PyUnicode_InternFromString("dtype");
    if (shape_name == NULL)
        shape_name = PyUnicode_InternFromString("shape");
    if (dtype_name == NULL || shape_name == NULL)
        return NULL;
    Entry *entry = (Entry *)Entry_Type.tp_alloc(&Entry_Type, 0);
    if (entry == NULL)
        return NULL;
    entry->settings = Py_NewRef(settings);
    entry->mesh = Py_NewRef(mesh == Py_None ? mesh : PyTuple_GET_ITEM(mesh, 0));
    entry->simulated = Py_NewRef(mesh == Py_None ? mesh : PyTuple_GET_ITEM(mesh, 2));
    entry->run = Py_NewRef(run);
    entry->consts = Py_NewRef(consts);
    entry->num_leaves = leaves;
    entry->num_kept = PyTuple_GET_SIZE(kept);
    entry->kept = PyMem_Calloc(entry->num_kept + 1, sizeof(Py_ssize_t));
    entry->tokens = PyMem_Calloc(PyTuple_GET_SIZE(tokens) + 1, sizeof(Token));
    if (entry->kept == NULL || entry->tokens == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    if (leaves < 0 || leaves > PyTuple_GET_SIZE(tokens))
        goto wrong;
    for (Py_ssize_t i = 0; i < entry->num_kept; i++) {
        entry->kept[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(kept, i));
        if (PyErr_Occurred())
            goto failed;
        if (entry->kept[i] < 0 || entry->kept[i] >= leaves)
            goto wrong;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tokens); i++) {
        if (read_token(&entry->tokens[i], PyTuple_GET_ITEM(tokens, i)) < 0)
            goto failed;
        entry->num_tokens++;
    }
    if (is_pattern(entry))
        return (PyObject *)entry;
wrong:
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the tokens are no pattern of a call");
failed:
    Py_DECREF(entry);
    return NULL;
}

static int entry_traverse(Entry *entry, visitproc visit, void *arg)
{
    Py_VISIT(entry->settings);
    Py_VISIT(entry->mesh);
    Py_VISIT(entry->simulated);
    Py_VISIT(entry->run);
    Py_VISIT(entry->consts);
    for (Py_ssize_t i = 0; i < entry->num_tokens; i++) {
        Py_VISIT(entry->tokens[i].first);
        Py_VISIT(entry->tokens[i].second);
        Py_VISIT(entry->tokens[i].convert);
    }
    return 0;
}

static int entry_clear(Entry *entry)
{
    Py_CLEAR(entry->settings);
    Py_CLEAR(entry->mesh);
    Py_CLEAR(entry->simulated);
    Py_CLEAR(entry->run);
    Py_CLEAR(entry->consts);
    for (Py_ssize_t i = 0; i < entry->num_tokens; i++) {
        Py_CLEAR(entry->tokens[i].first);
        Py_CLEAR(entry->tokens[i].second);
        Py_CLEAR(entry->tokens[i].convert);
    }
    return 0;
}

static void entry_dealloc(Entry *entry)
{
    PyObject_GC_UnTrack(entry);
    entry_clear(entry);
    PyMem_Free(entry->tokens);
    PyMem_Free(entry->kept);
    Py_TYPE(entry)->tp_free((PyObject *)entry);
}

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "weft.native._calls.Entry",
    .tp_doc = "A call that was made before.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_dealloc = (destructor)entry_dealloc,
};

/* ---- holding a call against it ---- */

/* Signatures are interned types, or tuples of a type with places and layouts. */
static int same_signature(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (a == NULL) /* an array that is not made yet */
        return 0;
    if (!PyTuple_CheckExact(a) || !PyTuple_CheckExact(b) ||
        PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++)
        if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i))
            return 0;
    return 1;
}

static int in_range(Token *token, PyObject *value)
{
    int overflow;
    if (!PyLong_CheckExact(value))
        return 1;
    long long found = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && token->low <= found && found <= token->high;
}

/* Static arguments are of immutable classes: equal and of one class, they stay so. A tuple is held
   against the known one part by part; that is no deeper than Python could look into it. */
static int same_static(PyObject *known, PyObject *value)
{
    if (known == value)
        return 1;
    if (!Py_IS_TYPE(value, Py_TYPE(known)))
        return 0;
    if (PyLong_CheckExact(known) || PyUnicode_CheckExact(known))
        return PyObject_RichCompareBool(known, value, Py_EQ);
    if (!PyTuple_CheckExact(known) || PyTuple_GET_SIZE(known) != PyTuple_GET_SIZE(value))
        return 0;
    int same = 1;
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(known); i++)
        same = same_static(PyTuple_GET_ITEM(known, i), PyTuple_GET_ITEM(value, i));
    return same;
}

static int matches(Entry *entry, Py_ssize_t *at, PyObject *value, PyObject **leaves);

static int dict_matches(Entry *entry, Token *token, Py_ssize_t *at, PyObject *value,
                        PyObject **leaves)
{
    if (token->count == 0 && value == NULL) /* a call without keywords */
        return 1;
    if (value == NULL || !PyDict_CheckExact(value) || PyDict_GET_SIZE(value) != token->count)
        return 0;
    Py_ssize_t place = 0;
    for (Py_ssize_t i = 0; i < token->count; i++) {
        PyObject *key, *child, *wanted = PyTuple_GET_ITEM(token->first, i);
        /* Most dictionaries have the order of the one before. */
        if (!PyDict_Next(value, &place, &key, &child) || key != wanted) {
            child = PyDict_GetItemWithError(value, wanted);
            if (child == NULL)
                return PyErr_Occurred() ? -1 : 0;
        }
        Py_INCREF(child);
        int same = matches(entry, at, child, leaves);
        Py_DECREF(child);
        if (same != 1)
            return same;
    }
    return 1;
}

static int numpy_matches(Token *token, PyObject *value)
{
    PyObject *dtype = PyObject_GetAttr(value, dtype_name);
    Py_XDECREF(dtype); /* the array holds it */
    if (dtype != token->first)
        return dtype == NULL ? -1 : 0;
    PyObject *shape = PyObject_GetAttr(value, shape_name);
    int same = shape == NULL ? -1 : PyObject_RichCompareBool(shape, token->second, Py_EQ);
    Py_XDECREF(shape);
    return same;
}

/* Whether a value has the form of the tokens from `at` on: 1, 0, or -1 with an exception. Puts new
   references to its leaves into their places, also where it returns 0. */
static int matches(Entry *entry, Py_ssize_t *at, PyObject *value, PyObject **leaves)
{
    Token *token = &entry->tokens[(*at)++];
    int same = 0;
    switch (token->kind) {
    case ARRAY:
        same = Py_IS_TYPE(value, arrays.type) &&
               same_signature(SLOT(value, arrays.signature), token->first);
        break;
    case NUMBER:
        same = (PyObject *)Py_TYPE(value) == token->first && in_range(token, value);
        break;
    case NUMPY:
        same = Py_IS_TYPE(value, arrays.ndarray) ? numpy_matches(token, value) : 0;
        break;
    case NONE:
        return value == Py_None;
    case STATIC:
        return same_static(token->first, value);
    case DICT:
        return dict_matches(entry, token, at, value, leaves);
    case LIST:
        if (!PyList_CheckExact(value) || PyList_GET_SIZE(value) != token->count)
            return 0;
        for (Py_ssize_t i = 0; i < token->count; i++) {
            if (i >= PyList_GET_SIZE(value))
                return 0;
            PyObject *child = Py_NewRef(PyList_GET_ITEM(value, i));
            int child_same = matches(entry, at, child, leaves);
            Py_DECREF(child);
            if (child_same != 1)
                return child_same;
        }
        return 1;
    case TUPLE:
        if ((PyObject *)Py_TYPE(value) != token->first || PyTuple_GET_SIZE(value) != token->count)
            return 0;
        for (Py_ssize_t i = 0; i < token->count; i++) {
            int child_same = matches(entry, at, PyTuple_GET_ITEM(value, i), leaves);
            if (child_same != 1)
                return child_same;
        }
        return 1;
    default:
        return 0;
    }
    if (same == 1 && leaves[token->count] == NULL)
        leaves[token->count] = Py_NewRef(value);
    return same;
}

/* Whether a call is that of the entry: 1, 0, or -1 with an exception. `leaves` has room for
   entry_leaves(), all NULL before; gets new references, of which the caller disposes. */
int entry_matches(PyObject *self, PyObject *args, PyObject *kwargs, PyObject *settings,
                  PyObject *mesh, PyObject **leaves)
{
    Entry *entry = (Entry *)self;
    if (entry->settings != settings)
        return 0;
    /* Without a mesh in force there may be simulated ones: both count. */
    int none = mesh == Py_None;
    if (entry->mesh != (none ? Py_None : PyTuple_GET_ITEM(mesh, 0)) ||
        entry->simulated != (none ? Py_None : PyTuple_GET_ITEM(mesh, 2)))
        return 0;
    /* A copy from the host may be one that the user wants to hear of. */
    if (entry->converts && !is_off(context.guarding))
        return PyErr_Occurred() ? -1 : 0;
    Py_ssize_t at = 0;
    int same = matches(entry, &at, args, leaves);
    if (same != 1)
        return same;
    Token *keywords = &entry->tokens[at++];
    return dict_matches(entry, keywords, &at, kwargs, leaves);
}

Py_ssize_t entry_leaves(PyObject *self)
{
    return ((Entry *)self)->num_leaves;
}

/* Whether numbers are operands of it, whatever their values. */
int entry_takes_numbers(PyObject *self)
{
    Entry *entry = (Entry *)self;
    for (Py_ssize_t i = 0; i < entry->num_tokens; i++)
        if (entry->tokens[i].kind == NUMBER)
            return 1;
    return 0;
}

/* ---- running ---- */

static PyObject *converted(Token *token, PyObject *value)
{
    PyObject *how = token->convert;
    if (!PyTuple_CheckExact(how))
        return PyObject_CallOneArg(how, value);
    PyObject *before = PyTuple_GET_ITEM(how, 1), *after = PyTuple_GET_ITEM(how, 2);
    PyObject *given[MOST_GIVEN];
    Py_ssize_t n = 0;
    PyObject *values = PyTuple_Pack(1, value);
    if (values == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(before); i++)
        given[n++] = PyTuple_GET_ITEM(before, i);
    given[n++] = values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(after); i++)
        given[n++] = PyTuple_GET_ITEM(after, i);
    PyObject *buffer = PyObject_Vectorcall(PyTuple_GET_ITEM(how, 0), given, n, NULL);
    Py_DECREF(values);
    return buffer;
}

/* The buffer of a number: programs use the same few again and again. NaN is no key, and -0.0 is
   equal to 0.0: both are converted each time. */
static PyObject *number_buffer(Token *token, PyObject *value)
{
    int remember = 1;
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        remember = number == number && (number != 0.0 || copysign(1.0, number) > 0.0);
    }
    PyObject *known = remember ? PyDict_GetItemWithError(token->second, value) : NULL;
    if (known != NULL)
        return Py_NewRef(known);
    if (PyErr_Occurred())
        return NULL;
    PyObject *buffer = converted(token, value);
    if (buffer != NULL && remember) {
        if (PyDict_GET_SIZE(token->second) >= MOST_NUMBERS)
            PyDict_Clear(token->second);
        if (PyDict_SetItem(token->second, value, buffer) < 0)
            Py_CLEAR(buffer);
    }
    return buffer;
}

/* Replaces each leaf of the array by its buffer, in `buffers`. */
static int take_buffers(Entry *entry, PyObject **leaves, PyObject **buffers)
{
    for (Py_ssize_t i = 0; i < entry->num_tokens; i++) {
        Token *token = &entry->tokens[i];
        if (token->kind > NUMPY)
            continue;
        PyObject *leaf = leaves[token->count], *buffer;
        if (token->kind == ARRAY)
            buffer = Py_XNewRef(SLOT(leaf, arrays.buffer));
        else if (token->kind == NUMBER)
            buffer = number_buffer(token, leaf);
        else
            buffer = converted(token, leaf);
        if (buffer == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_AttributeError, "_buffer");
            return -1;
        }
        buffers[token->count] = buffer;
    }
    return 0;
}

static PyObject *list_of(PyObject **items, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++)
        PyList_SET_ITEM(list, i, Py_NewRef(items[i]));
    return list;
}

/* Runs the executable on the leaves of a call that matches. */
PyObject *entry_run(PyObject *self, PyObject **leaves)
{
    Entry *entry = (Entry *)self;
    PyObject *result = NULL, *given = list_of(leaves, entry->num_leaves);
    if (given == NULL)
        return NULL;
    if (!Py_IS_TYPE(entry->run, &Run_Type)) {
        result = PyObject_CallOneArg(entry->run, given);
        Py_DECREF(given);
        if (result == NULL)
            trim_error();
        return result;
    }
    PyObject *small[64], **buffers = small;
    if (entry->num_leaves > 64)
        buffers = PyMem_Malloc(entry->num_leaves * sizeof(PyObject *));
    if (buffers == NULL) {
        Py_DECREF(given);
        return PyErr_NoMemory();
    }
    memset(buffers, 0, entry->num_leaves * sizeof(PyObject *));
    Py_ssize_t first = PyTuple_GET_SIZE(entry->consts);
    PyObject *operands = NULL;
    if (take_buffers(entry, leaves, buffers) == 0)
        operands = PyList_New(first + entry->num_kept);
    if (operands != NULL) {
        for (Py_ssize_t i = 0; i < first; i++)
            PyList_SET_ITEM(operands, i, Py_NewRef(PyTuple_GET_ITEM(entry->consts, i)));
        for (Py_ssize_t i = 0; i < entry->num_kept; i++)
            PyList_SET_ITEM(operands, first + i, Py_NewRef(buffers[entry->kept[i]]));
        result = run_buffers(entry->run, operands, given);
        Py_DECREF(operands);
    }
    for (Py_ssize_t i = 0; i < entry->num_leaves; i++)
        Py_XDECREF(buffers[i]);
    if (buffers != small)
        PyMem_Free(buffers);
    Py_DECREF(given);
    if (result == NULL)
        trim_error();
    return result;
}
