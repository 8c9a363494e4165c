/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: the Open MPIs of this host, queried by their ompi_info. It loads the component and
 * shows its parameters as a job started here would have them: from environment, files and defaults.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "info.h"

#define COMPONENT "mca_btl_rawe.so"
#define RAWE "mca:btl:rawe:param:btl_rawe_"

extern char **environ;

/** Takes a line without its end; the memory is reused. */
typedef void take_line_fn(void *context, char *line);

/** Run a program found in PATH, and pass on each line of its output. Returns 0, or errno. */
static int run(char *const arguments[], take_line_fn *take, void *context)
{
    posix_spawn_file_actions_t actions;
    char *line = NULL;
    size_t room = 0;
    int ends[2], status = 0;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int code = posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = code == 0 ? fdopen(ends[0], "r") : NULL;
    while (output != NULL && getline(&line, &room, output) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        take(context, line);
    }
    free(line);
    if (output != NULL) {
        fclose(output);
    } else {
        close(ends[0]);
    }
    if (code != 0) {
        return code;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

/** Return the value after `key`; values with a colon are quoted. NULL: another line. */
static char *value_of(char *line, const char *key)
{
    const size_t key_len = strlen(key);

    if (strncmp(line, key, key_len) != 0) {
        return NULL;
    }
    char *value = line + key_len;
    const size_t len = strlen(value);
    if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
        value[len - 1] = '\0';
        value++;
    }
    return value;
}

static void take_ompi_line(void *context, char *line)
{
    struct info_ompi *ompi = context;
    const struct {
        const char *key;
        const char **out;
    } texts[] = {
        {"ompi:version:full:", &ompi->version},
        {"path:pkglibdir:", &ompi->pkglibdir},
        {"mca:mca:base:param:mca_base_component_path:value:", &ompi->component_path},
        {RAWE "wire_version:value:", &ompi->wire_version},
        {RAWE "if_include:value:", &ompi->params.if_include},
        {RAWE "if_exclude:value:", &ompi->params.if_exclude},
        {RAWE "helper:value:", &ompi->params.helper},
    };
    char *value;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if ((value = value_of(line, texts[i].key)) != NULL) {
            *texts[i].out = info_copy(value);
            return;
        }
    }
    if ((value = value_of(line, "mca:btl:rawe:version:")) != NULL) {
        if (strncmp(value, "component:", strlen("component:")) == 0) {
            ompi->component_version = info_copy(value + strlen("component:"));
        }
    } else if ((value = value_of(line, RAWE "ethertype:value:")) != NULL) {
        ompi->params.ethertype = (uint16_t)strtoul(value, NULL, 0);
    } else if ((value = value_of(line, RAWE "socket_priority:value:")) != NULL) {
        ompi->params.socket_priority = (uint8_t)strtoul(value, NULL, 0);
    } else if ((value = value_of(line, RAWE "loopback:value:")) != NULL) {
        ompi->params.loopback = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    }
}

/** Expand Open MPI's names for two directories. */
static char *expand(const struct info_ompi *ompi, const char *directory)
{
    const char *home = getenv("HOME");
    char *path = NULL;
    int len = 0;

    if (strcmp(directory, "SYSTEM_DEFAULT") == 0) {
        len = asprintf(&path, "%s/" COMPONENT, ompi->pkglibdir != NULL ? ompi->pkglibdir : "");
    } else if (strcmp(directory, "USER_DEFAULT") == 0) {
        len = asprintf(&path, "%s/.openmpi/components/" COMPONENT, home != NULL ? home : "");
    } else {
        len = asprintf(&path, "%s/" COMPONENT, directory);
    }
    return len < 0 ? NULL : path;
}

static void find_files(struct info_ompi *ompi)
{
    char *rest = NULL;
    char *directories = info_copy(ompi->component_path != NULL ? ompi->component_path
                                  : ompi->pkglibdir != NULL    ? ompi->pkglibdir
                                                               : "");

    for (char *directory = strtok_r(directories, ":", &rest); directory != NULL;
         directory = strtok_r(NULL, ":", &rest)) {
        char *path = expand(ompi, directory);
        if (path != NULL && access(path, F_OK) == 0 && ompi->file_count < INFO_FILES_MAX) {
            ompi->files[ompi->file_count++] = path;
        } else {
            free(path);
        }
    }
    free(directories);
}

/** Query an ompi_info, unless it was queried under another name. */
static void ask(struct info *info, const char *program)
{
    char *const arguments[] = {(char *)program, "--parsable", "--all", "--level", "9", NULL};
    char *real = realpath(program, NULL);

    for (unsigned i = 0; i < info->ompi_count && real != NULL; i++) {
        char *other = realpath(info->ompi[i].program, NULL);
        const bool same = other != NULL && strcmp(real, other) == 0;
        free(other);
        if (same) {
            free(real);
            return;
        }
    }
    free(real);
    if (info->ompi_count == INFO_OMPI_MAX) {
        return;
    }
    struct info_ompi *ompi = &info->ompi[info->ompi_count++];
    ompi->program = info_copy(program);
    const int code = run(arguments, take_ompi_line, ompi);
    if (code != 0) {
        info_fail(info, "%s --parsable --all: %s", program,
                  code == EIO ? "it failed" : strerror(code));
    }
    find_files(ompi);
}

static void ask_in_path(struct info *info)
{
    const char *path = getenv("PATH");
    char *directories = info_copy(path != NULL ? path : "");
    char *rest = NULL;

    for (char *directory = strtok_r(directories, ":", &rest); directory != NULL;
         directory = strtok_r(NULL, ":", &rest)) {
        char program[PATH_MAX];
        snprintf(program, sizeof program, "%s/ompi_info", directory);
        if (access(program, X_OK) == 0) {
            ask(info, program);
        }
    }
    free(directories);
}

static void take_prefix(void *context, char *line)
{
    snprintf(context, PATH_MAX, "%s/bin/ompi_info", line);
}

static void ask_pkg_config(struct info *info)
{
    char *const arguments[] = {"pkg-config", "--variable=prefix", "ompi", NULL};
    char program[PATH_MAX] = "";

    if (run(arguments, take_prefix, program) == 0 && access(program, X_OK) == 0) {
        ask(info, program);
    }
}

void info_find_ompi(struct info *info)
{
    const char *named = getenv("OMPI_INFO");

    if (named != NULL && *named != '\0') {
        ask(info, named);
    }
    ask_in_path(info);
    ask_pkg_config(info);

    const struct info_params defaults = {
        .if_include = "",
        .if_exclude = "",
        .helper = RAWE_HELPER_PROGRAM,
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .loopback = true,
    };
    info->params = defaults;
    for (unsigned i = 0; i < info->ompi_count; i++) {
        const struct info_ompi *ompi = &info->ompi[i];
        if (ompi->params.if_include != NULL && ompi->params.if_exclude != NULL &&
            ompi->params.helper != NULL) {
            info->params = ompi->params;
            info->params.source = ompi->program;
            break;
        }
    }
}
