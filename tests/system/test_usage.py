"""Help, refusals and errors in the reader's language: the command line's and make's."""

from __future__ import annotations

import argparse
import ast
import io
import locale
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from grader import cli, intake
from grader.course import ROOT
from grader.model import say, what
from grader.report import gradebook, usage
from grader.report.language import Language, columns
from grader.report.words import STATUSES
from release.student import COMMANDS

ALL = sorted(path.stem for path in (ROOT / "grader" / "commands").glob("[!_]*.py"))
ENGLISH = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b")  # three words: a sentence, not a name
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LANGUAGE", "en")
    yield
    usage.speak(Language("en"))


def said(capsys, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    out, err = capsys.readouterr()
    return int(str(ended.value.code)), out, err


@pytest.mark.parametrize("command", ["", *ALL])
def test_help_is_in_chinese_and_fits(command: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh_CN.UTF-8")
    code, out, err = said(capsys, *command.split(), "--help")
    assert (code, err) == (0, "")
    assert not ENGLISH.search(out), ENGLISH.findall(out)
    assert "用法：" in out
    assert "选项" in out
    assert max(map(columns, out.splitlines())) <= 80
    # argparse's column of help, in which each text begins
    begins = {
        columns(line[: found.start()])
        for line in out.split("选项")[1].splitlines()
        if (found := CHINESE.search(line)) and re.match(r"  -\w, --\w+|  --\w+", line)
        and not re.search(r"--\w.*  +[a-z]", line)
    }  # fmt: skip
    assert len(begins) == 1


@pytest.mark.parametrize("command", ALL)
def test_later_lines_of_a_usage_stand_below_the_first(command: str, capsys) -> None:
    _, out, _ = said(capsys, command, "--help", "--lang", "zh")
    first, *later = out.split("\n\n")[0].splitlines()
    margin = columns(first[: re.match(r"用法：grader \w+ ", first).end()])  # type: ignore[union-attr]
    assert {len(line) - len(line.lstrip()) for line in later} <= {margin}


REFUSED = {
    "--nonsense": "无法识别的参数：--nonsense",
    "--lang fr": "参数 --lang：没有 'fr'；有 en, zh",
    "--lang": "参数 --lang：需要一个值",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", REFUSED)
def test_refusals_are_in_chinese(command: str, words: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh_CN.UTF-8")
    code, out, err = said(capsys, command, *words.split())
    assert (code, out) == (2, "")
    assert f"错误：{REFUSED[words]}\n" in err
    assert not ENGLISH.search(err)


OTHERS = {
    "": "缺少参数：COMMAND",
    "chek": "无效的选择 'chek'（可选：",
    "check --format pdf": "参数 --format：无效的选择 'pdf'（可选：",
    "check --limit soon": "参数 --limit：'soon' 不是数字",
    "check --limit 0": "参数 --limit：必须是大于 0 的秒数",
    "check --json=1": "参数 --json：不接受值 '1'",
    "check --l 3": "有歧义，可能是 --limit, --lang",
    "grade --jobs 0": "参数 --jobs：必须不小于 1",
    "export out": "缺少参数：--format",
    "export out --format canvas --out-of 0": "参数 --out-of：必须大于 0",
}


@pytest.mark.parametrize("words", OTHERS)
def test_other_refusals_are_in_chinese(words: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh_CN.UTF-8")
    code, out, err = said(capsys, *words.split())
    assert (code, out) == (2, "")
    assert OTHERS[words] in err
    assert not ENGLISH.search(err)


@pytest.mark.parametrize(
    "words",
    ["check --lang zh --help", "check --help --lang zh", "--lang zh check --help",
     "check --lang=zh_CN --help", "--lang zh --help"],
)  # fmt: skip
def test_the_language_that_is_named_counts_wherever_it_stands(words: str, capsys) -> None:
    _, out, _ = said(capsys, *words.split())
    assert out.startswith("用法：")


def test_english_is_as_argparse_has_it(capsys, monkeypatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh_CN.UTF-8")
    _, out, _ = said(capsys, "check", "--help", "--lang", "en")
    assert out.startswith("usage: grader check [-h]")
    assert "show this help message and exit" in out
    _, _, err = said(capsys, "check", "--nonsense", "--lang", "en")
    assert err.endswith("grader: error: unrecognized arguments: --nonsense\n")


# What authors of parsers meet, not their users; and ways of calling that no command has.
NEVER = re.compile(
    r"not defined|conflicting|unknown parser|argument \"-\"|can't open|cannot merge|'required' is"
    r"|invalid option string|dest= is|invalid conflict|mutually|multiple subparser|subcommands"
    r"|one of the arguments|not allowed|at most one|at least one|expected %s|unexpected option"
    r"|not callable|deprecated|warning:|default: |version number"
)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its words are not yet known")
def test_the_catalogue_has_what_this_python_s_argparse_says() -> None:
    tree = ast.parse(Path(str(argparse.__file__)).read_text(encoding="utf-8"))
    asked = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("_", "ngettext")
        and isinstance(node.args[0], ast.Constant)
    }
    missing = {text for text in asked if not NEVER.search(str(text))}
    assert missing <= {words.text for words in usage.ITS_WORDS}
    assert "unrecognized arguments: %s" in missing


# ------------------------------------------------------------------------------------------ errors


def test_a_broken_zip_is_told_in_chinese(tmp_path: Path) -> None:
    (tmp_path / "ada.zip").write_bytes(b"PK no zip at all")
    with pytest.raises(intake.IntakeError) as caught:
        intake.read(tmp_path / "ada.zip", ["attention"])
    assert str(caught.value) == "ada.zip cannot be read: File is not a zip file"
    assert Language("zh").render(what(caught.value)) == "无法读取 ada.zip：文件不是 zip"


def test_a_file_that_may_not_be_read_is_told_in_chinese(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "attention.py").touch()

    def refuse(self: object, name: str, most: int) -> bytes:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(intake._Folder, "read", refuse)
    with pytest.raises(intake.IntakeError) as caught:
        intake.read_folder(tmp_path, ["attention"])
    words = f"无法读取 {tmp_path.name}：attention.py：没有权限"
    assert Language("zh").render(what(caught.value)) == words


def test_braces_in_a_name_are_no_placeholders(tmp_path: Path) -> None:
    (tmp_path / "{ada}.zip").write_bytes(b"PK")
    with pytest.raises(intake.IntakeError) as caught:
        intake.read(tmp_path / "{ada}.zip", ["attention"])
    assert "{ada}.zip" in Language("zh").render(what(caught.value))


def test_the_system_s_words_are_told_in_chinese(monkeypatch, capsys) -> None:
    def full(arguments: argparse.Namespace) -> int:
        raise OSError(28, "No space left on device", "submission.zip")

    monkeypatch.setattr("grader.commands.submit.run", full)
    assert cli.main(["submit", "--lang", "zh"]) == 2
    assert capsys.readouterr().err == "submission.zip：磁盘已满。已完成的部分都保留着。\n"


def test_an_adjustment_is_refused_in_chinese(tmp_path: Path) -> None:
    from grader import adjustments
    from grader.course import load

    path = tmp_path / "adjustments.csv"
    path.write_text("submission,kind,target,value,reason\nada,late,,2,x\n", encoding="utf-8")
    with pytest.raises(adjustments.AdjustmentError) as caught:
        adjustments.read(path, load(), load().exercises, ["ada"])
    words = f"{path}，第 2 行：value '2' 不在 0 和 1 之间"
    assert Language("zh").render(what(caught.value)) == words


PEOPLES = {"CourseError", "IntakeError", "SessionError", "ClassroomError", "AdjustmentError",
           "ExportError", "GradebookError", "ResetError", "SubmitError", "JailError",
           "SetUpError", "BuildError"}  # fmt: skip
# Whoever changes banks, suites and lessons reads English.
MAINTAINERS = {"notebooks.py", "calibrate.py", "mutants.py", "pairs.py", "sandbox.py"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.relative_to(ROOT).as_posix())
        for path in sorted({*ROOT.glob("grader/**/*.py"), *ROOT.glob("*/*.py")})
        if path.name not in MAINTAINERS and path.parent.name != "judge"
    ],
)
def test_no_error_that_people_meet_is_plain_english(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in PEOPLES:
                plain = [arg for arg in node.args if isinstance(arg, (ast.Constant, ast.JoinedStr))]
                assert not plain, f"{path.name}, line {node.lineno}"


def test_a_class_s_table_is_in_chinese() -> None:
    console = Console(file=io.StringIO(), width=80)
    lines = [gradebook.Line("ada", "ungraded", [], [Text("-"), Text("-"), Text("")])]
    gradebook.show(console, lines, Language("zh"))
    head = console.file.getvalue().splitlines()[0].split()  # type: ignore[attr-defined]
    assert head == ["提交", "分数", "通过", "第一处未通过"]
    assert Language("zh").render(STATUSES["ungraded"]) == "未评分"


@pytest.mark.skipif(sys.platform != "linux", reason="there are no walls")
def test_walls_are_in_chinese(monkeypatch, capsys) -> None:
    from grader import checkup, walls

    found = walls.Finding("read a file outside", True, "absent", say("it runs on"), say("yes"))
    monkeypatch.setattr(checkup, "show", lambda language: 0)
    monkeypatch.setattr(walls, "examine", lambda: [found])
    assert cli.main(["doctor", "--walls", "--lang", "zh"]) == 2
    out = capsys.readouterr().out
    for words in (
        "保护",
        "状态",
        "必需",
        "看到了什么",
        "怎么办",
        "读取外面的文件",
        "缺少",
        "它还在运行",
    ):
        assert words in out
    assert not ENGLISH.search(out)


@pytest.mark.skipif(sys.platform != "linux", reason="it is tried where it could grade")
def test_where_there_are_no_walls_grade_says_so(tmp_path: Path, monkeypatch, capsys) -> None:
    from grader.subject import sandbox

    (tmp_path / "class" / "ada").mkdir(parents=True)
    monkeypatch.setattr("grader.walls.examine", lambda **how: [])
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    words = ["grade", str(tmp_path / "class"), "--out", str(tmp_path / "out"), "--lang", "zh"]
    assert cli.main(words) == 2
    assert capsys.readouterr().err.startswith("在沙箱里评分需要 Linux。")


def test_windows_name_of_a_language_is_understood(monkeypatch) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, tag in {
        "Chinese (Simplified)_China": "zh",
        "Chinese_China": "zh",
        "English_United States": "en",
        "zh_CN": "zh",
        None: "en",
    }.items():
        monkeypatch.setattr(locale, "getlocale", lambda name=name: (name, "936"))
        assert Language().tag == tag


# -------------------------------------------------------------------------------------------- make


def make(*words: str, lang: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LANG", "LC_", "MAKE"))}
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, env=environment | {"LANG": lang}, encoding="utf-8",
                          capture_output=True, timeout=60)  # fmt: skip


needs_make = pytest.mark.skipif(not shutil.which("make"), reason="there is no make")


@needs_make
def test_make_s_help_is_in_chinese() -> None:
    done = make("help", lang="zh_CN.UTF-8")
    assert (done.returncode, done.stderr) == (0, "")
    lines = list(filter(None, done.stdout.splitlines()))
    assert all(map(CHINESE.search, lines))
    assert not ENGLISH.search(done.stdout)
    assert max(map(columns, lines)) <= 80
    assert {line.split()[1] for line in lines if line.startswith("  make")} >= set(COMMANDS)


@needs_make
@pytest.mark.parametrize("python", [[], ["PYTHON="]])
def test_make_s_help_is_in_english_with_or_without_a_python(python: list[str]) -> None:
    done = make("help", *python, lang="en_US.UTF-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  make check       check your exercises\n" in done.stdout
    assert done.stdout.startswith("  make help        list what make can do\n")
    assert "\t" not in done.stdout
    assert not CHINESE.search(done.stdout)


@needs_make
def test_make_says_in_chinese_how_it_is_written() -> None:
    for words, told in {
        "attention": "请把名字写在 ONLY= 后面： make check ONLY=attention.",
        "only=attention": "请用大写字母： make check ONLY='attention'.",
    }.items():
        done = make("-n", "check", words, lang="zh_CN.UTF-8")
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a pipe that nobody reads is told otherwise there")
@pytest.mark.parametrize("command", [["tools/tell.py"], ["-m", "grader", "check", "--help"]])
def test_who_reads_no_further_is_told_nothing(command: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    lines = "\n".join(["head\tEach installs what it needs into .venv, once."] * 100)
    done = subprocess.run(
        [sys.executable, *command],
        input=lines.encode(),
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    os.close(write)
    assert done.stderr == b""
