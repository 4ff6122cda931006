# SPDX-License-Identifier: MIT
"""Ways in which one and the same message reaches its reader. Each takes a random source and a text, and gives the text as it
would look then (bytes where its encoding is another), or None where that cannot happen to it."""
import collections
import json
import re

Change = collections.namedtuple("Change", "name loses make stage")

SIZE = re.compile(r"(?<![\w.,:-])(\d[\d,]*(?:\.\d+)?)( ?)(KiB|MiB|GiB|KB|kB|MB|GB|bytes)\b")
UNIT = {"kib": 10, "kb": 10, "mib": 20, "mb": 20, "gib": 30, "gb": 30, "bytes": 0}


def lines_with(text, prefix):
    return "".join(prefix(n) + line for n, line in enumerate(text.splitlines(True)))


def clock(r):
    start = r.randrange(24 * 3600)
    return lambda n: "{:02}:{:02}:{:02}".format(*((start + n // 3) // d % m for d, m in ((3600, 24), (60, 60), (1, 60))))


def vllm_prefix(r, text):
    now, pid = clock(r), r.randrange(100, 99999)
    who = r.choice(("EngineCore_DP0", "EngineCore", "Worker_TP1", "APIServer"))
    return lines_with(text, lambda n: f"({who} pid={pid}) ERROR 03-1{n % 9} {now(n)} [core.py:{r.randrange(100, 900)}] ")


def docker_prefix(r, text):
    name = r.choice(("vllm-1", "trainer", "app_server_1", "llm"))
    return lines_with(text, lambda n: f"{name}  | ")


def docker_json(r, text):
    now = clock(r)
    return "".join(json.dumps({"log": line, "stream": "stderr", "time": f"2026-03-11T{now(n)}.123456789Z"}, ensure_ascii=False) + "\n"
                   for n, line in enumerate(text.splitlines(True)))


def kubernetes_prefix(r, text):
    now = clock(r)
    return lines_with(text, lambda n: f"2026-03-11T{now(n)}.{r.randrange(10**9):09}Z stderr F ")


def journal_prefix(r, text):
    now, pid = clock(r), r.randrange(300, 99999)
    return lines_with(text, lambda n: f"Mar 11 {now(n)} node{pid % 7} python3[{pid}]: ")


def own_rank(text):
    """A process whose rank is not its card's number would say that ranks share a card."""
    found = re.search(r"GPU (\d)\b", text)
    return found[1] if found else "0"


def rank_prefix(r, text):
    rank = own_rank(text)
    return lines_with(text, lambda n: f"[rank{rank}]: ")


def worker_prefix(r, text):
    form = r.choice(("[default{}]:", "{}: ", "[{}] ", "(RayWorkerWrapper pid=41{}, ip=10.0.0.7) "))
    rank = own_rank(text)
    return lines_with(text, lambda n: form.format(rank))


def time_prefix(r, text):
    now, form = clock(r), r.choice(("2026-03-11 {},123 - ERROR - ", "2026-03-11T{}Z ", "[2026-03-11 {}] ", "2026/03/11 {} ", "{}.042 "))
    return lines_with(text, lambda n: form.format(now(n)))


def coloured_lines(r, text):
    return lines_with(text, lambda n: f"\x1b[{r.choice(('31', '1;31', '38;5;9', '0', '36'))}m").replace("\n", "\x1b[0m\n") + "\x1b[0m"


def coloured_words(r, text):
    words = re.split(r"( +)", text)
    return "".join(f"\x1b[1;3{r.randrange(8)}m{w}\x1b[0m" if w.strip(" ") and r.random() < 0.3 and "\n" not in w else w for w in words)


def carriage_returns(r, text):
    return text.replace("\n", "\r\n") + "\r\n"


def progress_before(r, text):
    bar = "".join(f"\rfiles: {n:3}%|{'#' * (n // 10):10}| {n}/100 [00:{n // 2:02}<00:{50 - n // 2:02}]" for n in range(0, 101, 20))
    return bar + "\n" + text


def quoted(r, text):
    mark = r.choice(("> ", ">", "    ", "\t", "> > ", "| "))
    return lines_with(text, lambda n: mark)


def fenced(r, text):
    return f"Hi all, this is what I get:\n\n```{r.choice(('', 'bash', 'pytb'))}\n{text}\n```\n\nThanks!\n"


def spaced(r, text):
    """As browsers copy: blanks that do not break, at the ends of lines more of them."""
    return text.replace("\n", "  \n").replace(". ", ".\u00a0")


def marked(r, text):
    return b"\xef\xbb\xbf" + text.encode()


def wide(r, text):
    """What PowerShell writes with ">"."""
    return b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le")


def wrapped_at_blanks(r, text):
    width = r.choice((60, 80, 100, 120))
    out = []
    for line in text.split("\n"):
        while len(line) > width and " " in line[:width].strip():
            at = line.rindex(" ", 0, width)
            out.append(line[:at])
            line = line[at + 1:]
        out.append(line)
    return "\n".join(out)


def wrapped_hard(r, text):
    width = r.choice((80, 100, 120))
    if all(len(line) <= width for line in text.split("\n")):
        return None
    return "\n".join(line[n:n + width] for line in text.split("\n") for n in range(0, max(len(line), 1), width))


def escaped(r, text):
    """In a string of JSON or of Python."""
    if "\n" not in text:
        return None
    return '{"detail": ' + json.dumps(text, ensure_ascii=False) + "}\n"


QUIET = ("INFO:     10.0.0.{a}:{b} - \"GET /health HTTP/1.1\" 200 OK",
         "nginx: 10.0.0.{a} - - [11/Mar/2026:10:12:{c:02} +0000] \"POST /api/items HTTP/1.1\" 200 {b}",
         "DEBUG urllib3.connectionpool: https://files.example:443 \"GET /w/{b} HTTP/1.1\" 200 {b}",
         "Collecting package-{a} (from -r requirements.txt (line {c}))",
         "kernel: eth0: Link is Up - 10Gbps/Full - flow control rx/tx {b}",
         "{{\"level\":\"info\",\"ts\":17000{b},\"msg\":\"request done\",\"ms\":{c}}}",
         "[{b}] user u{a} logged in from 10.1.{a}.{c}", "", "I{b} main.cc:{c}] serving on port {b}")


def quiet_lines(r, n):
    return "".join(r.choice(QUIET).format(a=r.randrange(1, 255), b=r.randrange(1000, 60000), c=r.randrange(60)) + "\n" for _ in range(n))


def inside_a_log(r, text):
    return quiet_lines(r, r.choice((40, 400, 3000))) + text + "\n" + quiet_lines(r, r.choice((40, 400)))


def log_after(r, text):
    return text + "\n" + quiet_lines(r, r.choice((40, 2000)))


def twice(r, text):
    return text + "\n" + quiet_lines(r, r.randrange(60)) + text + "\n"


def end_cut(r, text):
    """The constant advice at the end of PyTorch's message is gone."""
    cut = re.sub(r" *(If reserved (but unallocated )?memory is|See documentation for Memory|Use PYTORCH_MPS|Please use `empty_cache`).*", "", text)
    return cut if cut != text else None


SPELLINGS = (("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"), ("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"),
             ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"), ("total capacity of", "total capacty of"), ("total capacty of", "total capacity of"),
             ("reserved in total by PyTorch", "reserved in total by Pytorch"), ("RuntimeError: CUDA out", "torch.cuda.OutOfMemoryError: CUDA out"),
             ("Cuda failure 2 'out of memory'", "Cuda failure 'out of memory'"), ("Cuda failure 'out of memory'", "Cuda failure 2 'out of memory'"),
             ("torch.AcceleratorError", "RuntimeError"), ("RuntimeError: CUDA error", "torch.AcceleratorError: CUDA error"),
             ("Kill process", "Killed process"), ("alloc_cpu.cpp:73", "alloc_cpu.cpp:117"), ("ResourceExhaustedError", "ResourceExhausted"),
             ("llama_new_context_with_model", "llama_init_from_model"), ("llm_load_tensors", "load_tensors"))


def respelt(r, text):
    fit = [(a, b) for a, b in SPELLINGS if a in text]
    if not fit:
        return None
    a, b = r.choice(fit)
    return text.replace(a, b)


def other_lines(r, text):
    """Another version: line numbers in sources differ."""
    changed = re.sub(r"(, line |\.py:|\.cpp:|\.cu:|\.cc:)(\d+)", lambda m: m[1] + str(int(m[2]) + r.randrange(1, 90)), text)
    return changed if changed != text else None


def small_letters(r, text):
    return text.lower()


TRANSLATIONS = (
    ("The paging file is too small for this operation to complete", (
        "Die Auslagerungsdatei ist zu klein, um diesen Vorgang durchzuführen", "Le fichier de pagination est insuffisant pour terminer cette opération",
        "El archivo de paginación es demasiado pequeño para completar la operación", "页面文件太小，无法完成操作",
        "ページング ファイルが小さすぎるため、この操作を完了できません", "Файл подкачки слишком мал для завершения операции")),
    ("Cannot allocate memory", ("Nicht genügend Hauptspeicher verfügbar", "Impossible d'allouer de la mémoire", "No se pudo asignar memoria", "无法分配内存",
                                "メモリを確保できません", "Не удалось выделить память")),
    ("No space left on device", ("Auf dem Gerät ist kein Speicherplatz mehr verfügbar", "Aucun espace disponible sur le périphérique",
                                 "No queda espacio en el dispositivo", "设备上没有空间", "На устройстве не осталось места")),
    ("Killed", ("Getötet", "Processus arrêté", "Terminado (killed)", "已杀死", "強制終了", "Убито")),
    ("Bus error", ("Bus-Zugriffsfehler", "Erreur du bus", "Error de bus", "总线错误", "バスエラー", "Ошибка шины")),
)


def translated(r, text):
    """Texts of the system in another language. A bare "Killed" counts only where it is a line's end, as shells print it."""
    fit = [(a, b) for a, b in TRANSLATIONS if (re.search(r"(?m)(^|\s)Killed( +\S+.*)?$", text) if a == "Killed" else a in text)]
    if not fit:
        return None
    a, words = r.choice(fit)
    if a == "Killed":
        return re.sub(r"(?m)(^|\s)Killed(?=( +\S+.*)?$)", lambda m: m[1] + r.choice(words), text, count=1)
    return text.replace(a, r.choice(words))


def decimal_commas(r, text):
    """But of three decimals, which would be thousands."""
    changed = re.sub(r"(?<![\w.])(\d+)\.(\d\d?|\d{4,})( ?[KMG]i?B\b)", r"\1,\2\3", text)
    return changed if changed != text else None


def scaled_text(text, k):
    """Each size times k, in the decimals it has, and what each new one is in bytes."""
    values = []

    def size(m):
        whole, decimals = m[1].replace(",", ""), len(m[1].partition(".")[2])
        new = f"{float(whole) * k:.{decimals}f}"
        exact = int(new) << UNIT[m[3].lower()] if decimals == 0 else int(float(new) * (1 << UNIT[m[3].lower()]))
        values.append(exact)
        if m[3] in ("kB", "KB", "MB", "GB"):  # which are powers of ten with some programs
            values.append(int(float(new) * 10 ** (UNIT[m[3].lower()] * 3 // 10)))
        return f"{int(new):,}{m[2]}{m[3]}" if "," in m[1] and decimals == 0 else f"{new}{m[2]}{m[3]}"
    return SIZE.sub(size, text), values


# In the order in which they come about: what a program says, who passes it on, where it is put, how it is shown and stored.
STAGES = ((end_cut, respelt, other_lines, translated, decimal_commas, small_letters),
          (vllm_prefix, docker_prefix, docker_json, kubernetes_prefix, journal_prefix, rank_prefix, worker_prefix, time_prefix, escaped,
           coloured_lines, coloured_words),
          (inside_a_log, log_after, twice, progress_before),
          (wrapped_at_blanks, wrapped_hard),
          (quoted, fenced, spaced, carriage_returns),
          (marked, wide))
# What an answer may lose. FIGURES: some may be missing, the certainty lower, the cause unknown; never another figure or cause.
# CAUSE: another one, for the words around tell more than the text did.
FIGURES, CAUSE = "figures", "cause"
MAY_LOSE = {wrapped_hard: FIGURES, escaped: FIGURES, docker_json: FIGURES, translated: FIGURES, vllm_prefix: CAUSE, worker_prefix: CAUSE}


def change_of(make, stage):
    return Change(make.__name__.replace("_", " "), {MAY_LOSE[make]} if make in MAY_LOSE else set(), make, stage)


CHANGES = tuple(change_of(make, stage) for stage, makes in enumerate(STAGES) for make in makes)
