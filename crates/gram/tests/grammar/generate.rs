//! Generates valid, nearly valid and invalid texts from a seed.

/// A random number generator (splitmix64). The same seed produces the same texts on every platform.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Generates a text. In most cases this is a valid text with random changes, sometimes a valid document or random
/// tokens.
pub(crate) fn text(random: &mut Random) -> String {
    match random.below(10) {
        0..2 => document(random),
        2..4 => random_tokens(random),
        _ => {
            let whole = if random.one_in(4) { random_tokens(random) } else { document(random) };
            mutate(random, &whole)
        }
    }
}

const TOKENS: &[&str] = &[
    "a",
    "b",
    "true",
    "false",
    "trueish",
    "_",
    "a.b",
    "a-",
    "x@y",
    "0",
    "1",
    "-1",
    "42",
    "007",
    "08",
    "0x1F",
    "0x",
    "0xF",
    "-0xF",
    "1.5",
    "-0.5",
    "1.",
    ".5",
    "10kg",
    "1e3",
    "..",
    "...",
    "....",
    ".",
    "'s'",
    "'",
    "\"d\"",
    "\"",
    "\"\"",
    "`q`",
    "`",
    "``",
    "md`t`",
    "```\nf\n```",
    "```md\nf\n```",
    "``` md // c\nf```",
    "```",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    ",",
    ":",
    "::",
    ":::",
    "@",
    "@@",
    "@@@",
    "-",
    "--",
    "-->",
    "->",
    "<--",
    "<-->",
    "<-",
    "=",
    "==",
    "==>",
    "<==>",
    "<=",
    "=>",
    "~",
    "~~",
    "~~>",
    "<~",
    "<",
    ">",
    "-[",
    "]->",
    "=[",
    "]=>",
    "<-[",
    "]-",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "// c\n",
    "/** d */",
    "/**/",
    "/* x */",
    "/",
    "*",
    "\\",
    "\\n",
    "\\\"",
    "\\u0041",
    "é",
    "\u{a0}",
    "\u{feff}",
    "\0",
    ";",
    "#",
    "+",
    "null",
    "(a)",
    "[a]",
    "{k:1}",
    "@k(1)",
    "@@x",
    ":L",
    "(a)-->(b)",
    "[x | y]",
];

fn random_tokens(random: &mut Random) -> String {
    (0..random.below(14)).map(|_| random.pick(TOKENS)).collect()
}

fn mutate(random: &mut Random, whole: &str) -> String {
    let mut chars: Vec<char> = whole.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(chars.len() + 1);
        let end = (at + random.below(4)).min(chars.len());
        match random.below(5) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let copy: Vec<char> = chars[at..end].to_vec();
                chars.splice(at..at, copy);
            }
            2 if at + 1 < chars.len() => chars.swap(at, at + 1),
            3 => drop(chars.splice(at..end, random.pick(TOKENS).chars().collect::<Vec<_>>())),
            _ => drop(chars.splice(at..at, random.pick(TOKENS).chars().collect::<Vec<_>>())),
        }
    }
    chars.into_iter().collect()
}

/// Generates a valid document.
pub(crate) fn document(random: &mut Random) -> String {
    let mut text = layout(random);
    if random.one_in(4) {
        text += &record(random);
    }
    for _ in 0..random.below(4) {
        text += &layout(random);
        if random.one_in(4) {
            text += &annotations(random);
        }
        text += &pattern(random, 3);
    }
    text + &layout(random)
}

fn pattern(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.one_in(2) { path(random) } else { bracket(random, depth - 1) }
}

fn bracket(random: &mut Random, depth: usize) -> String {
    let subject = maybe_subject(random);
    let mut text = format!("[{}{subject}{}", layout(random), layout(random));
    let count = random.below(4);
    for index in 0..count {
        text += if index == 0 { "|" } else { "," };
        text += &layout(random);
        text += &if random.one_in(4) { identifier(random) } else { pattern(random, depth) };
        text += &layout(random);
    }
    text + "]"
}

fn path(random: &mut Random) -> String {
    let mut text = node(random);
    while random.one_in(3) {
        text += &layout(random);
        text += &arrow(random);
        text += &layout(random);
        text += &node(random);
    }
    text
}

fn node(random: &mut Random) -> String {
    format!("({}{}{})", layout(random), maybe_subject(random), layout(random))
}

fn arrow(random: &mut Random) -> String {
    let stroke = random.pick(&["-", "=", "~"]);
    let (left, right) = (random.pick(&["", "<"]), random.pick(&["", ">"]));
    let inside = if random.one_in(2) { String::new() } else { format!("[{}]", maybe_subject(random)) };
    format!("{left}{stroke}{}{inside}{}{stroke}{right}", layout(random), layout(random))
}

fn maybe_subject(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(2) {
        text += &identifier(random);
        text += &layout(random);
    }
    if random.one_in(2) {
        text += &labels(random);
        text += &layout(random);
    }
    if random.one_in(3) {
        text += &record(random);
    }
    text
}

fn labels(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..=random.below(2) {
        let colon = random.pick(&[":", "::"]);
        let label = random.pick(&["A", "Agent", "true", "Gram.Root", "`two words`", "``", "a-b"]);
        text += &format!("{colon}{}{label}{}", layout(random), layout(random));
    }
    text
}

fn identifier(random: &mut Random) -> String {
    random
        .pick(&["a", "b", "agent_1", "false", "a.b-c@d", "`q`", "``", "`with \\` and \\n`", "0", "-7", "12"])
        .to_owned()
}

fn annotations(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(3) {
        let inside = random.pick(&["x", ":L", "x:L", "`q`::L:M", "7"]);
        text += &format!("@@{}{inside}{}", layout(random), blank(random));
    }
    while text.is_empty() || random.one_in(3) {
        let key = random.pick(&["k", "true", "a-b"]);
        text += &format!("@{key}{}({}{}){}", layout(random), value(random), layout(random), layout(random));
    }
    text
}

fn record(random: &mut Random) -> String {
    let count = random.below(4);
    let colons = [":", "::"];
    let entries = (0..count).map(|_| entry(random, &colons, value)).collect::<Vec<_>>();
    format!("{{{}{}}}", entries.join(","), layout(random))
}

fn map(random: &mut Random) -> String {
    let count = random.below(3);
    let entries = (0..count)
        .map(|_| entry(random, &[":"], |random| if random.one_in(4) { array(random) } else { scalar(random) }));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

fn entry(random: &mut Random, colons: &[&str], value: impl Fn(&mut Random) -> String) -> String {
    let key = random.pick(&["k", "key", "true", "`q k`", "\"d k\"", "\"\"", "a.b"]);
    let colon = random.pick(colons);
    format!("{}{key}{}{colon}{}{}{}", layout(random), layout(random), layout(random), value(random), layout(random))
}

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => array(random),
        1 => map(random),
        _ => scalar(random),
    }
}

fn array(random: &mut Random) -> String {
    let items: Vec<String> = (0..=random.below(3)).map(|_| scalar(random)).collect();
    format!("[{}{}]", items.join(","), layout(random))
}

fn scalar(random: &mut Random) -> String {
    match random.below(6) {
        0 | 1 => number(random).to_owned(),
        2 => {
            let (lower, upper) = (number(random), number(random));
            match random.below(3) {
                0 => format!("{lower}..{upper}"),
                1 => format!("{lower}..."),
                _ => format!("...{upper}"),
            }
        }
        3 => random.pick(&["true", "false", "sym", "null", "a.b", "trueish"]).to_owned(),
        4 => random
            .pick(&["'it\\'s'", "\"a \\\"b\\\" \\n\"", "\"\"", "''", "``", "`q`", "\" é \"", "\"http://x\""])
            .to_owned(),
        _ => random
            .pick(&[
                "md`t`",
                "h3 `x\\``",
                "```\nplain\n```",
                "```md\n# t `x` ``y``\n```",
                "``` md \n\n```",
                "```\r\n```",
            ])
            .to_owned(),
    }
}

fn number(random: &mut Random) -> &'static str {
    random.pick(&["0", "-1", "42", "1.5", "-0.25", "0x1F", "0xF", "017", "00", "10kg", "-3m", "0x", "0xFg"])
}

fn layout(random: &mut Random) -> String {
    match random.below(12) {
        0 => " ".to_owned(),
        1 => random.pick(&["\n", "\t", "\r\n", "  "]).to_owned(),
        2 if random.one_in(3) => random.pick(&["// c\n", "/** d */", " // \" [\n", "/** * / ` */", "//\n"]).to_owned(),
        _ => String::new(),
    }
}

fn blank(random: &mut Random) -> String {
    random.pick(&[" ", "\n", " /** d */ "]).to_owned()
}
