/* A plugin with no devices: the table and the two extensions through which handlers and types are
   registered, laid out as in pjrt_c_api.h, pjrt_c_api_gpu_extension.h and
   pjrt_c_api_ffi_extension.h of XLA. It keeps what it is given, and refuses what is called "bad". */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Extension {
  size_t struct_size;
  int type;
  struct Extension* next;
} Extension;

typedef struct {
  size_t struct_size;
  const char* name;
  size_t name_size;
  int api_version;
  void *instantiate, *prepare, *initialize, *execute;
} HandlerArgs;

typedef struct {
  void *deleter, *serialize, *deserialize;
} TypeInfo;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const char* name;
  size_t name_size;
  int64_t type_id;
  TypeInfo* type_info;
} TypeArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* error;
  const char* message;
  size_t message_size;
} ErrorArgs;

static int errors_alive = 0;
static const char kMessage[] = "this plugin takes nothing bad";
static void destroy_error(ErrorArgs* args) { (void)args, --errors_alive; }
static void error_message(ErrorArgs* args) {
  args->message = kMessage;
  args->message_size = strlen(kMessage);
}
static void* refused(const char* name, size_t size) {
  if (size != 3 || memcmp(name, "bad", 3) != 0) return NULL;
  ++errors_alive;
  return &errors_alive;
}

static HandlerArgs last_handler;
static TypeArgs last_type;
static void* last_deleter;
static int handlers = 0;

static void* register_handler(HandlerArgs* args) {
  if (args->struct_size != sizeof(HandlerArgs)) return &errors_alive;
  last_handler = *args;
  ++handlers;
  return refused(args->name, args->name_size);
}

static void* register_type(TypeArgs* args) {
  if (args->struct_size != sizeof(TypeArgs)) return &errors_alive;
  last_type = *args;
  last_deleter = args->type_info->deleter;
  if (args->type_id == 0) args->type_id = 41;
  return refused(args->name, args->name_size);
}

static struct {
  Extension base;
  void *register_type, *add_user_data, *register_handler;
} ffi = {{sizeof(ffi), 5, NULL}, (void*)register_type, NULL, NULL};

static struct {
  Extension base;
  void* custom_call;
} gpu = {{sizeof(gpu), 0, &ffi.base}, (void*)register_handler};

static Extension other = {sizeof(other), 7, &gpu.base};

static struct {
  size_t struct_size;
  Extension* extension_start;
  size_t version_size;
  void* version_extensions;
  int major, minor;
  void (*destroy_error)(ErrorArgs*);
  void (*error_message)(ErrorArgs*);
  void* rest[256];
} api = {sizeof(api), &other, 24, NULL, 0, 112, destroy_error, error_message, {NULL}};

const void* GetPjrtApi(void) { return &api; }

/* What the tests ask and change. */
int handlers_given(void) { return handlers; }
int errors_left(void) { return errors_alive; }
int last_version(void) { return last_handler.api_version; }
int64_t last_type_id(void) { return last_type.type_id; }
void* deleter_given(void) { return last_deleter; }
void* stage_given(int stage) { return (&last_handler.instantiate)[stage]; }
void without_extensions(void) { api.extension_start = NULL; }
void with_old_extensions(void) {
  api.extension_start = &other;
  gpu.base.struct_size = ffi.base.struct_size = sizeof(Extension);
}
void with_extensions(void) {
  api.extension_start = &other;
  gpu.base.struct_size = sizeof(gpu);
  ffi.base.struct_size = sizeof(ffi);
}
