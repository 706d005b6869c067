"""Token counts: the estimate is deterministic, close to the truth on every kind of text, and in step with the length of
any text; the exact counter is exact, also where it cuts."""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.adapters import tokens
from holdfast.adapters.tokens import EstimatingCounter, ExactCounter
from holdfast.errors import ExtraMissing, InvalidArgument
from tests.support import figure

EXAMPLES = figure(50, 20_000)
MEGABYTE = 1_000_000
ROOT = Path(__file__).parents[2]
COUNTER = EstimatingCounter()
EXACT = ExactCounter()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PIECES = st.sampled_from(
    [
        "a",
        "Word",
        " ",
        "  ",
        "\n",
        "\t",
        "17",
        "!",
        "://",
        "'s",
        "é",
        "日本",
        "\u00a0",
        "\x1c",
        "<|endoftext|>",
        "😀",
        "\r\n",
    ]
)
count = COUNTER.count

PARAGRAPHS = {
    "chat": [
        "Hi! Could you move my appointment from Tuesday to Thursday afternoon? Anything after 3pm works, thanks.",
        "Sure, I've moved it to Thursday at 3:30 pm. You'll get an e-mail soon. Is there anything else I can do?",
        "I changed both call sites to the new name. All 212 tests pass. One warning is left (an import in parser.py).",
        "It was there before, so I didn't touch it. Shall I open the pull request, or would you rather review it first?",
        "no worries, take your time :) btw do you know if the hotel near the station has free parking? we're coming by car",
    ],
    "Chinese": [
        "你好，我想把周二的预约改到周四下午，三点以后都可以。如果没有空位，周五上午也行，麻烦你帮我看一下，谢谢！",
        "我检查了两处调用，把它们改成了新的名字，然后重新运行了测试，全部通过。还有一个警告没有处理，因为它之前就存在。需要我提交合并请求吗？",
        "人工智能正在改变我们的生活方式。越来越多的公司使用大型语言模型来回答客户的问题、撰写报告和分析数据，但也有人担心隐私和就业。",
        "这家餐厅的菜味道不错，服务员也很热情，就是等位的时间有点长。建议大家提前打电话预订，周末人特别多，停车也不太方便。",
        "运行 `make check` 会依次执行格式检查、类型检查和全部测试。只想测试一个模块时，把文件名传给 pytest 即可。",
        "昨天夜里突然下起了大雨，院子里的几棵桃树被风吹断了枝条。爷爷一早就起来收拾，嘴里念叨着今年怕是吃不上桃子了。",
        "本公司第三季度营业收入为十二亿元，同比增长百分之八，净利润略有下降，主要原因是原材料价格上涨和汇率波动。",
        "孩子发烧超过三十八度五可以吃退烧药，同时多喝水、注意休息。如果持续三天不退，或者出现抽搐、呕吐，应当马上去医院。",
        "手机用了不到半年屏幕就坏了，客服一直让等，打了好几次电话也没人管，太失望了，以后再也不买这个牌子！",
        "光合作用是绿色植物利用光能，把二氧化碳和水转化成有机物，并且释放出氧气的过程，它主要在叶绿体中进行。",
    ],
    "Japanese": [
        "こんにちは。火曜日の予約を木曜日の午後に変更していただけますか。三時以降なら何時でも大丈夫です。よろしくお願いします。",
        "二つの呼び出し箇所を新しい名前に変更し、テストをもう一度実行しました。すべて成功しています。プルリクエストを作成してもよろしいですか。",
        "この図書館は駅から歩いて五分のところにあり、週末は家族連れでにぎわっています。二階には静かに勉強できる部屋があります。",
    ],
    "Korean": [
        "안녕하세요. 화요일 예약을 목요일 오후로 바꿀 수 있을까요? 세 시 이후라면 언제든지 괜찮습니다. 감사합니다.",
        "호출하는 두 곳을 새 이름으로 바꾸고 테스트를 다시 실행했습니다. 모두 통과했습니다. 풀 리퀘스트를 만들어도 될까요?",
        "이 도서관은 역에서 걸어서 오 분 거리에 있고, 주말에는 가족들로 붐빕니다. 조용한 방도 있습니다.",
    ],
    "Russian": [
        "Здравствуйте! Можно перенести мою запись со вторника на четверг после обеда? Подойдёт любое время. Спасибо.",
        "Я посмотрел оба места вызова, заменил их на новое имя и запустил тесты: все прошли. Открыть запрос на слияние?",
        "Библиотека находится в пяти минутах ходьбы от вокзала, и по выходным там много семей с детьми.",
    ],
    "Arabic": [
        "مرحبا، هل يمكن نقل موعدي من يوم الثلاثاء إلى يوم الخميس بعد الظهر؟ أي وقت بعد الساعة الثالثة يناسبني، شكرا.",
        "راجعت مكاني الاستدعاء وغيرت الاسم ثم شغلت الاختبارات مرة أخرى، وقد نجحت كلها. هل أفتح طلب الدمج الآن؟",
        "تقع المكتبة على بعد خمس دقائق سيرا من المحطة، وتزدحم بالعائلات في نهاية الأسبوع.",
    ],
    "Hindi": [
        "नमस्ते, क्या मेरी मंगलवार की मुलाकात गुरुवार दोपहर को हो सकती है? तीन बजे के बाद कोई भी समय ठीक है। धन्यवाद।",
        "मैंने दोनों जगह नया नाम लिख दिया और परीक्षण फिर से चलाए। सब सफल रहे। क्या मैं बदलाव भेज दूँ?",
        "पुस्तकालय स्टेशन से पाँच मिनट की दूरी पर है और सप्ताह के अंत में वहाँ बहुत भीड़ रहती है।",
    ],
    "German and French": [
        "Guten Tag, könnten Sie meinen Termin von Dienstag auf Donnerstagnachmittag verschieben? Nach 15 Uhr passt alles.",
        "Ich habe die beiden Aufrufe auf den neuen Namen geändert und die Tests noch einmal laufen lassen; alle sind grün.",
        "Bonjour, pourriez-vous déplacer mon rendez-vous de mardi à jeudi après-midi ? N'importe quelle heure après 15 h.",
        "J'ai modifié les deux appels, puis relancé les tests : tout est passé. Dois-je ouvrir la demande de fusion ?",
    ],
}
WORDS = [
    "done",
    "great",
    "ship",
    "it",
    "works",
    "thanks",
    "for",
    "the",
    "fix",
    "please",
    "review",
    "tests",
    "pass",
    "now",
    "and",
    "deploy",
    "later",
]
BOUNDS = {"chat": 10, "Markdown": 10, "code": 10, "JSON": 10, "tool logs": 10, "Chinese": 10}
BOUNDS |= {"Japanese": 15, "Korean": 15, "Russian": 15, "Arabic": 15, "Hindi": 25, "German and French": 20}
BOUNDS |= {"numbers": 10, "hex": 10, "base64": 12, "emoji": 10, "blanks": 15}


@contextmanager
def sliced(slice_chars: int, cut_chars: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "SLICE_CHARS", slice_chars)
        patch.setattr(tokens, "CUT_CHARS", cut_chars)
        yield


def pieces(text: str) -> list[str]:
    """A text cut into what messages are like: whole lines, a few hundred to a few thousand characters."""
    found, size = [""], 400
    for line in text.splitlines(keepends=True):
        if len(found[-1]) + len(line) > size:
            found.append("")
            size = 3_000 if size == 400 else 400
        found[-1] += line
    return [piece for piece in found if len(piece) > 100]


def shipped(*patterns: str) -> list[str]:
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return [piece for path in files for piece in pieces(path.read_text(encoding="utf-8"))]


def as_json(number: int, text: str) -> str:
    """In turns a record of a few values and a message that quotes the text."""
    lines = text.splitlines()
    words = text.split()
    record = {
        "id": f"call_{number:05}",
        "created_at": f"2026-03-{number % 28 + 1:02}T09:17:03Z",
        "size": len(text),
        "share": round(len(words) / len(text), 4),
        "tags": words[:4],
        "owner": {"name": words[-1], "active": number % 3 == 0, "parent": None},
    }
    message = {
        "role": "tool",
        "tool_call_id": f"call_{number:05}",
        "is_error": False,
        "content": text[:300],
        "lines": lines[:9],
    }
    return json.dumps([message, record][number % 2], indent=[None, None, 2, 2][number % 4], ensure_ascii=False)


def as_log(number: int, text: str) -> str:
    lines = text.splitlines()
    kinds: list[Callable[[int, str], str]] = [
        lambda at, line: f"{at:6}\t{line}",
        lambda at, line: f"src/holdfast/part_{number}.py:{at}:{line}",
        lambda at, line: (
            f"2026-03-{at % 28 + 1:02}T09:{at % 60:02}:17.{at * 37 % 1000:03}Z INFO worker[{number}] {line.strip()}"
        ),
        lambda at, line: f"{'+-'[at % 2]}{line}",
        lambda at, line: (
            f"-rw-r--r-- 1 root root {at * 991:7} Mar {at % 28 + 1:2} 09:{at % 60:02} {'_'.join(line.split()[:2])}.py"
        ),
    ]
    return "\n".join(kinds[number % len(kinds)](at, line) for at, line in enumerate(lines, 1))


def samples(kind: str) -> list[str]:
    """Texts as long as messages are. Paragraphs come in pairs: a single sentence may be off by twice as much."""
    chance = random.Random(kind)
    if kind in PARAGRAPHS:
        some = PARAGRAPHS[kind]
        return ["\n\n".join((some + some)[at : at + 2]) for at in range(len(some))]
    code = shipped("src/holdfast/**/*.py", "src/holdfast/**/*.sql", "Makefile", "pyproject.toml")
    made: dict[str, Callable[[int], str]] = {
        "JSON": lambda at: as_json(at, code[at]),
        "tool logs": lambda at: as_log(at, code[at]),
        "numbers": lambda at: "\n".join(
            ",".join(
                [
                    f"2026-03-{at % 28 + 1:02}",
                    str(chance.randrange(100_000)),
                    f"{chance.uniform(-9, 99):.{at % 5 + 1}f}",
                    "EU",
                ]
            )
            for _ in range(20)
        ),
        "hex": lambda at: " ".join(chance.randbytes(at % 40 + 4).hex() for _ in range(8)),
        "base64": lambda at: base64.b64encode(chance.randbytes(300 + at)).decode(),
        "emoji": lambda at: " ".join(
            chance.choice(WORDS) if chance.random() < 0.5 else chance.choice("😀👍🎉🔥🚀🐛👀🙏💡🌍") for _ in range(60)
        ),
        "blanks": lambda at: "\n".join(
            f"{' ' * (at % 30)}{chance.choice(WORDS):<40}{chance.choice(WORDS)}" for _ in range(20)
        ),
    }
    if kind in made:
        return [made[kind](at) for at in range(60)]
    return code if kind == "code" else shipped("docs/**/*.md", "*.md")


@pytest.mark.parametrize("kind", BOUNDS)
def test_the_estimate_is_close_to_the_exact_count(kind: str) -> None:
    texts = samples(kind)
    assert len(texts) >= 3
    errors = [abs(count(text) / EXACT.count(text) - 1) for text in texts]
    assert mean(errors) * 100 <= BOUNDS[kind]


def test_nothing_is_no_token_and_anything_is_one() -> None:
    assert count("") == EXACT.count("") == 0
    assert min(count(chr(code)) for code in (*range(0xD800), *range(0xE000, 0x20000, 7))) >= 1


def test_the_name_says_which_rule_counted() -> None:
    assert [COUNTER.name, EXACT.name, ExactCounter("cl100k").name] == ["estimate/2", "o200k/rs-bpe", "cl100k/rs-bpe"]


@given(st.lists(PIECES, max_size=40).map("".join) | TEXTS)
@settings(max_examples=EXAMPLES)
@example("a" * 4_097 + "0" * 70_000)
def test_the_count_is_the_sum_of_the_weights(text: str) -> None:
    """Counted pair by pair, as if each weight were counted for itself."""
    thousandths = 1_000 if text else 0
    for start in range(0, len(text), tokens.SLICE_CHARS):
        part = text[start : start + tokens.SLICE_CHARS]
        shapes = part.encode().translate(tokens._SHAPES, tokens._FOLLOWING)
        words = shapes.translate(tokens._WORDS)
        thousandths += tokens._sum_weights(shapes, tokens._SHAPE_WEIGHTS | tokens._OTHER_SHAPE_WEIGHTS)
        thousandths += tokens._sum_weights(words, tokens._WORD_WEIGHTS | tokens._OTHER_WORD_WEIGHTS)
    assert count(text) == thousandths // 1_000


@given(TEXTS)
@settings(max_examples=EXAMPLES)
def test_the_same_text_has_the_same_count(text: str) -> None:
    assert count(text) == EstimatingCounter().count(text) >= 0


@given(TEXTS, TEXTS)
@settings(max_examples=EXAMPLES)
@example("A", "0")
@example("0", "a")
@example("0", ".")
def test_a_longer_text_is_about_the_sum_of_its_parts(one: str, other: str) -> None:
    """Where two texts meet, a word may become one or a pair may appear; no more than that."""
    together, apart = count(one + other), count(one) + count(other)
    assert max(count(one), count(other)) <= together
    assert apart - 3 <= together <= apart + 3


@given(TEXTS.filter(bool))
@settings(max_examples=EXAMPLES)
def test_a_text_has_at_most_about_two_tokens_a_character(text: str) -> None:
    assert 1 <= count(text) <= 2 * len(text) + 1


@given(st.lists(PIECES, min_size=20, max_size=200).map("".join), st.integers(1, 20))
@settings(max_examples=EXAMPLES)
def test_looking_at_it_in_slices_changes_little(text: str, slice_chars: int) -> None:
    """Each cut may lose what the two characters beside it weigh as a pair."""
    whole = count(text)
    with sliced(slice_chars, 0):
        cuts = -(-len(text) // slice_chars) - 1
        assert whole - 3 * cuts <= count(text) <= whole


CHARACTERS = {
    "letters": "a",
    "capitals": "A",
    "digits": "7",
    "blanks": " ",
    "line ends": "\n",
    "tabs": "\t",
    "marks": "!",
    "underscores": "_",
    "controls": "\x01",
    "NULs": "\0",
    "accents": "é",
    "combining marks": "\u0301",
    "other letters": "日",
    "emoji": "😀",
    "no-break blanks": "\u00a0",
    "zero-width": "\u200b",
    "right to left": "א",
    "Georgian": "ა",
    "lone surrogates": "\ud800",
}


@pytest.mark.parametrize("name", CHARACTERS)
def test_a_megabyte_of_one_character_is_counted_in_proportion(name: str) -> None:
    """A text that fills a window must never look like an empty one."""
    half, whole = count(CHARACTERS[name] * (MEGABYTE // 2)), count(CHARACTERS[name] * MEGABYTE)
    assert whole == pytest.approx(2 * half, rel=0.01)
    assert MEGABYTE // 200 <= whole <= 2 * MEGABYTE


@pytest.mark.parametrize("pair", ["a ", "a1", "1.", "a\n", "é!", " \n", "日a", "_a", "\0a"])
def test_a_megabyte_of_changing_characters_is_counted(pair: str) -> None:
    assert MEGABYTE // 200 <= count(pair * (MEGABYTE // 2)) <= 2 * MEGABYTE


@given(st.lists(PIECES, max_size=300).map("".join), st.integers(1, 60))
@settings(max_examples=EXAMPLES)
def test_cutting_before_a_blank_keeps_the_exact_count_exact(text: str, slice_chars: int) -> None:
    """Words follow so closely that there is always a place to cut."""
    spaced = "".join(f"{text[at : at + 9]}x y" for at in range(0, len(text), 9)) + " z" * 40
    whole = EXACT.count(spaced), ExactCounter("cl100k").count(spaced)
    with sliced(slice_chars, 40):
        assert (EXACT.count(spaced), ExactCounter("cl100k").count(spaced)) == whole


@given(st.text(st.sampled_from("aB1_é日😀"), max_size=400), st.integers(10, 60))
@settings(max_examples=EXAMPLES)
def test_a_text_without_blanks_is_exact_up_to_a_few_tokens_a_cut(text: str, slice_chars: int) -> None:
    whole = EXACT.count(text)
    with sliced(slice_chars, 40):
        assert abs(EXACT.count(text) - whole) <= 3 * (len(text) // slice_chars)


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("hello world", 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("<|endoftext|>", 7, 7),
        ("人工智能", 2, 5),
        ("a\ud800b", 3, 3),
    ],
)
def test_known_texts_have_their_known_counts(text: str, o200k: int, cl100k: int) -> None:
    assert (EXACT.count(text), ExactCounter("cl100k").count(text)) == (o200k, cl100k)


def test_one_exact_counter_serves_many_threads() -> None:
    texts = samples("chat") * 50
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(EXACT.count, texts)) == [EXACT.count(text) for text in texts]


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[tokens\]'"):
        ExactCounter()


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="p50k"):
        ExactCounter("p50k")  # type: ignore[arg-type]
