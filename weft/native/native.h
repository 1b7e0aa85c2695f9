/* What the parts of weft.native._calls share: see optional.py for what the module is for. */

#ifndef WEFT_NATIVE_H
#define WEFT_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* Attributes of a class with __slots__ are read and written at their offsets in its objects. */
#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* The class of arrays, with the offsets of its slots; set by use_arrays(). */
typedef struct {
    PyTypeObject *type, *ndarray;
    Py_ssize_t buffer, array_type, signature;
    PyObject *explain, *trim;
} Arrays;

/* What a call depends on besides its arguments; set by use_context(). */
typedef struct {
    PyObject *trace, *settings, *mesh; /* context variables */
    PyObject *config;                  /* the dictionary of the module weft.config */
    PyObject *global, *guarding, *looking, *vary; /* names in it */
} Context;

extern Arrays arrays;
extern Context context;
extern PyTypeObject Run_Type, KnownCalls_Type, Entry_Type, Method_Type, Guarded_Type;

/* run.c */
PyObject *run_buffers(PyObject *run, PyObject *buffers, PyObject *args);
void with_error(PyObject *function, PyObject *first);
void trim_error(void);
int without_error(void);
int slot_offset(PyTypeObject *type, const char *name, Py_ssize_t *offset);
PyObject *use_gate(PyObject *module, PyObject *function);
PyObject *use_arrays(PyObject *module, PyObject *given);

/* entry.c */
PyObject *use_context(PyObject *module, PyObject *given);
int is_off(PyObject *name);
int at_the_bottom(void);
PyObject *settings_in_force(void);
PyObject *entry_new(PyObject *args, PyObject *settings, PyObject *mesh);
int entry_matches(PyObject *entry, PyObject *args, PyObject *kwargs, PyObject *settings,
                  PyObject *mesh, PyObject **leaves);
Py_ssize_t entry_leaves(PyObject *entry);
int entry_takes_numbers(PyObject *entry);
PyObject *entry_run(PyObject *entry, PyObject **leaves);

/* guard.c */
PyObject *guarded(PyObject *module, PyObject *given);

/* bind.c */
PyObject *compiled_bind(PyObject *module, PyObject *given);

#endif
