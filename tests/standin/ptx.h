/*
 * Runs PTX on the processor, instruction by instruction: as much of it as clang makes of probes/device.c. What a
 * driver would translate is executed as it stands, so that the loops which are carried for devices are tested
 * where there is no device. Anything else in a module is refused.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef union {
    uint64_t u64;
    int64_t s64;
    uint32_t u32;
    int32_t s32;
    double f64;
    float f32;
} Value;

enum { REGISTER, CONSTANT, SHARED, SPECIAL, PARAMETER };
typedef struct {
    int kind, slot; /* of a register, special register or parameter; offset of shared memory */
    long offset;    /* of an address in brackets */
    Value value;
} Operand;

enum {
    LOAD, STORE, LOADPARAM, MOVE, ADD, SUB, MUL, WIDE, FMA, AND, OR, SHL, SHR, SETP, SELP, CONVERT, BRANCH, BARRIER,
    RETURN
};
enum { U32, U64, S32, S64, F32, F64 };
enum { EQ, NE, LT, LE, GT, GE, LEU, GTU, NUM };
typedef struct {
    int op, type, from, compare, vector, guard, negated, operands;
    char label[32];
    int target;
    Operand operand[6];
} Instruction;

typedef struct {
    char name[64];
    int params, instructions, slots;
    size_t shared;
    Instruction *code;
} Function;

typedef struct {
    Function function[32];
    int functions;
} Module;

typedef struct { char name[32]; int at; } Name;
typedef struct { Name all[512]; int count; } Names;

static int named(Names *names, const char *name, int add)
{
    for (int i = 0; i < names->count; i++)
        if (!strcmp(names->all[i].name, name))
            return names->all[i].at;
    if (!add || names->count == 512)
        return -1;
    Name *new = &names->all[names->count];
    snprintf(new->name, sizeof new->name, "%s", name);
    return new->at = names->count++;
}

static int type_of(const char *text)
{
    static const char *names[] = {"u32", "u64", "s32", "s64", "f32", "f64"};
    for (int i = 0; i < 6; i++)
        if (!strcmp(text, names[i]))
            return i;
    if (!strcmp(text, "b32"))
        return U32;
    return strcmp(text, "b64") ? -1 : U64;
}

/* An operand: %register, constant, [address+offset], name of shared memory or of a parameter. */
static int operand(Operand *o, char *text, Names *registers, Names *shared)
{
    static const char *special[] = {"%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x"};
    memset(o, 0, sizeof *o);
    if (*text == '[') {
        text[strcspn(text, "]")] = 0;
        char *plus = strchr(++text, '+');
        if (plus) {
            *plus = 0;
            o->offset = atol(plus + 1);
        }
    }
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, special[i])) {
            o->kind = SPECIAL;
            o->slot = i;
            return 1;
        }
    if (*text == '%') {
        o->kind = REGISTER;
        return (o->slot = named(registers, text, 1)) >= 0;
    }
    char *param = strstr(text, "_param_");
    if (param) {
        o->kind = PARAMETER;
        o->slot = atoi(param + 7);
        return 1;
    }
    if (!strncmp(text, "0d", 2) || !strncmp(text, "0f", 2)) {
        o->kind = CONSTANT;
        o->value.u64 = strtoull(text + 2, NULL, 16);
        return 1;
    }
    if (*text == '-' || (*text >= '0' && *text <= '9')) {
        o->kind = CONSTANT;
        o->value.s64 = strtoll(text, NULL, 10);
        return 1;
    }
    o->kind = SHARED;
    int at = named(shared, text, 0);
    o->slot = at;
    return at >= 0;
}

/* One line of a body; 0 where it is not known. */
static int instruction(Instruction *i, char *line, Names *registers, Names *shared)
{
    memset(i, 0, sizeof *i);
    i->guard = -1;
    i->vector = 1;
    if (*line == '@') {
        char *guard = line + 1;
        i->negated = *guard == '!';
        guard += i->negated;
        line = guard + strcspn(guard, " \t");
        *line++ = 0;
        i->guard = named(registers, guard, 1);
        line += strspn(line, " \t");
    }
    char *rest = line + strcspn(line, " \t;"), *words[8], *more;
    if (*rest)
        *rest++ = 0;
    int count = 0;
    for (char *word = strtok_r(line, ".", &more); word && count < 8; word = strtok_r(NULL, ".", &more))
        words[count++] = word;
    static const struct { const char *name; int op; } ops[] = {
        {"ld", LOAD}, {"st", STORE}, {"mov", MOVE}, {"add", ADD}, {"sub", SUB}, {"mul", MUL}, {"fma", FMA},
        {"and", AND}, {"or", OR}, {"shl", SHL}, {"shr", SHR}, {"setp", SETP}, {"selp", SELP}, {"cvt", CONVERT},
        {"cvta", MOVE}, {"bra", BRANCH}, {"bar", BARRIER}, {"ret", RETURN},
    };
    i->op = -1;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (!strcmp(words[0], ops[k].name))
            i->op = ops[k].op;
    if (i->op < 0)
        return 0;
    static const char *compares[] = {"eq", "ne", "lt", "le", "gt", "ge", "leu", "gtu", "num"};
    i->type = i->from = -1;
    for (int w = 1; w < count; w++) {
        int type = type_of(words[w]);
        for (int c = 0; c < 9 && i->op == SETP; c++)
            if (!strcmp(words[w], compares[c]))
                i->compare = c;
        if (type >= 0 && i->type < 0)
            i->type = type;
        else if (type >= 0)
            i->from = type;
        else if (!strcmp(words[w], "param"))
            i->op = LOADPARAM;
        else if (!strcmp(words[w], "wide"))
            i->op = WIDE;
        else if (words[w][0] == 'v' && (i->op == LOAD || i->op == STORE))
            i->vector = atoi(words[w] + 1);
    }
    if (i->op == BRANCH) {
        rest += strspn(rest, " \t");
        snprintf(i->label, sizeof i->label, "%.*s", (int)strcspn(rest, " \t;"), rest);
        return 1;
    }
    if (i->op == BARRIER || i->op == RETURN)
        return 1;
    for (char *word = strtok_r(rest, " \t,{};", &more); word; word = strtok_r(NULL, " \t,{};", &more))
        if (i->operands == 6 || !operand(&i->operand[i->operands++], word, registers, shared))
            return 0;
    return i->type >= 0;
}

/* Reads a module; what is not understood comes back in `why`. */
static Module *ptx_read(const char *text, char *why, size_t room)
{
    Module *module = calloc(1, sizeof *module);
    char *copy = strdup(text), *next = copy;
    Function *f = NULL;
    Names registers = {.count = 0}, shared = {.count = 0};
    struct { char name[32]; int at; } labels[64];
    int marked = 0, body = 0;
    char original[256];
    while (next && *next) {
        char *line = next, *end = strchr(line, '\n');
        next = end ? end + 1 : NULL;
        if (end)
            *end = 0;
        line += strspn(line, " \t");
        char *entry = strstr(line, ".entry ");
        snprintf(original, sizeof original, "%s", line);
        if (entry) {
            f = &module->function[module->functions++];
            snprintf(f->name, sizeof f->name, "%.*s", (int)strcspn(entry + 7, "("), entry + 7);
            f->code = calloc(2048, sizeof *f->code);
            registers.count = shared.count = marked = 0;
        } else if (!strncmp(line, ".param", 6)) {
            f->params++;
        } else if (*line == '{') {
            body = 1;
        } else if (*line == '}') {
            body = 0;
            f->slots = registers.count;
            for (int i = 0; i < f->instructions; i++) {
                int l = 0;
                while (f->code[i].op == BRANCH && l < marked && strcmp(f->code[i].label, labels[l].name))
                    l++;
                snprintf(original, sizeof original, "label %s", f->code[i].label);
                if (f->code[i].op == BRANCH && l == marked)
                    goto unknown;
                f->code[i].target = labels[l].at;
            }
        } else if (body && !strncmp(line, ".shared", 7)) {
            char name[64];
            long bytes = 0;
            if (sscanf(line, ".shared .align %*d .b8 %63[^[][%ld]", name, &bytes) != 2)
                goto unknown;
            int at = named(&shared, name, 1);
            shared.all[at].at = (int)f->shared;
            f->shared += (size_t)(bytes + 15) / 16 * 16;
        } else if (body && line[0] && line[strlen(line) - 1] == ':') {
            snprintf(labels[marked].name, sizeof labels[marked].name, "%.*s", (int)strlen(line) - 1, line);
            labels[marked++].at = f->instructions;
        } else if (body && *line && *line != '.' && *line != ')') {
            if (!instruction(&f->code[f->instructions++], line, &registers, &shared))
                goto unknown;
        }
        continue;
    unknown:
        snprintf(why, room, "ptxas error: unknown: %s", original);
        free(copy);
        return NULL;
    }
    free(copy);
    if (module->functions)
        return module;
    snprintf(why, room, "ptxas error: no entry in the image");
    return NULL;
}

/* Where a block is run. */
typedef struct {
    const Function *f;
    void **args;
    char *shared;
    uint32_t block, threads, blocks;
} Block;

static Value get(const Block *b, const Value *r, uint32_t thread, const Operand *o)
{
    Value v = {.u64 = 0};
    switch (o->kind) {
    case REGISTER: return r[o->slot];
    case CONSTANT: return o->value;
    case SHARED: v.u64 = (uint64_t)(uintptr_t)(b->shared + o->slot); return v;
    default:
        v.u32 = o->slot == 0 ? thread : o->slot == 1 ? b->block : o->slot == 2 ? b->threads : b->blocks;
        return v;
    }
}

#define ARITHMETIC(integer, real)                                                                  \
    switch (i->type) {                                                                             \
    case U32: case S32: d.u32 = integer(x.u32, y.u32); break;                                      \
    case U64: case S64: d.u64 = integer(x.u64, y.u64); break;                                      \
    case F32: d.f32 = real(x.f32, y.f32); break;                                                   \
    case F64: d.f64 = real(x.f64, y.f64); break;                                                   \
    }
#define PLUS(x, y) ((x) + (y))
#define MINUS(x, y) ((x) - (y))
#define TIMES(x, y) ((x) * (y))

#define COMPARE(field)                                                                             \
    switch (i->compare) {                                                                          \
    case EQ: d.u64 = x.field == y.field; break;                                                    \
    case NE: d.u64 = x.field != y.field; break;                                                    \
    case LT: d.u64 = x.field < y.field; break;                                                     \
    case LE: d.u64 = x.field <= y.field; break;                                                    \
    case GT: d.u64 = x.field > y.field; break;                                                     \
    case GE: d.u64 = x.field >= y.field; break;                                                    \
    case LEU: d.u64 = !(x.field > y.field); break;                                                 \
    case GTU: d.u64 = !(x.field <= y.field); break;                                                \
    case NUM: d.u64 = x.field == x.field && y.field == y.field; break;                             \
    }

/* Runs a thread up to a barrier or its end; where it goes on, or -1. */
static int thread_run(const Block *b, Value *r, uint32_t thread, int at)
{
    for (;; at++) {
        const Instruction *i = &b->f->code[at];
        if (i->guard >= 0 && (r[i->guard].u64 != 0) == i->negated)
            continue;
        Value d = {.u64 = 0}, x = d, y = d, z = d;
        if (i->op != LOAD && i->op != STORE && i->op != LOADPARAM) {
            if (i->operands > 1) x = get(b, r, thread, &i->operand[1]);
            if (i->operands > 2) y = get(b, r, thread, &i->operand[2]);
            if (i->operands > 3) z = get(b, r, thread, &i->operand[3]);
        }
        switch (i->op) {
        case BARRIER: return at + 1;
        case RETURN: return -1;
        case BRANCH: at = i->target - 1; continue;
        case LOADPARAM:
            memcpy(&d, b->args[i->operand[1].slot], i->type == F32 || i->type == U32 ? 4 : 8);
            break;
        case LOAD: case STORE: {
            const Operand *address = &i->operand[i->op == LOAD ? i->vector : 0];
            char *place = (char *)(uintptr_t)(get(b, r, thread, address).u64 + (uint64_t)address->offset);
            size_t bytes = i->type == F32 || i->type == U32 ? 4 : 8;
            for (int v = 0; v < i->vector; v++, place += bytes) {
                const Operand *o = &i->operand[i->op == LOAD ? v : v + 1];
                Value moved = {.u64 = 0};
                if (i->op == LOAD) {
                    memcpy(&moved, place, bytes);
                    r[o->slot] = moved;
                } else {
                    moved = get(b, r, thread, o);
                    memcpy(place, &moved, bytes);
                }
            }
            continue;
        }
        case MOVE: d = x; break;
        case ADD: ARITHMETIC(PLUS, PLUS) break;
        case SUB: ARITHMETIC(MINUS, MINUS) break;
        case MUL: ARITHMETIC(TIMES, TIMES) break;
        case WIDE: d.u64 = (uint64_t)x.u32 * y.u32; break;
        case FMA:
            if (i->type == F32) d.f32 = fmaf(x.f32, y.f32, z.f32);
            else d.f64 = fma(x.f64, y.f64, z.f64);
            break;
        case AND: d.u64 = x.u64 & y.u64; break;
        case OR: d.u64 = x.u64 | y.u64; break;
        case SHL: d.u64 = x.u64 << y.u32; break;
        case SHR: d.u64 = i->type == U32 ? x.u32 >> y.u32 : x.u64 >> y.u32; break;
        case SELP: d = z.u64 ? x : y; break;
        case SETP:
            switch (i->type) {
            case U32: COMPARE(u32) break;
            case S32: COMPARE(s32) break;
            case U64: COMPARE(u64) break;
            case S64: COMPARE(s64) break;
            case F32: COMPARE(f32) break;
            case F64: COMPARE(f64) break;
            }
            break;
        case CONVERT:
            if (i->type == F32) d.f32 = (float)x.u32;
            else if (i->type == F64) d.f64 = (double)x.u32;
            else d.u64 = x.u32;
            break;
        }
        r[i->operand[0].slot] = d;
    }
}

/* Runs a kernel to its end. */
static void ptx_run(const Function *f, uint32_t blocks, uint32_t threads, void **args)
{
    Value *registers = malloc((size_t)threads * f->slots * sizeof *registers);
    int *at = malloc(threads * sizeof *at);
    char *shared = aligned_alloc(16, f->shared + 16);
    for (uint32_t block = 0; block < blocks; block++) {
        Block b = {f, args, shared, block, threads, blocks};
        memset(at, 0, threads * sizeof *at);
        for (int left = 1; left;) {
            left = 0;
            for (uint32_t t = 0; t < threads; t++)
                if (at[t] >= 0)
                    left |= (at[t] = thread_run(&b, registers + (size_t)t * f->slots, t, at[t])) >= 0;
        }
    }
    free(registers);
    free(at);
    free(shared);
}
