/** The language of templates: what it can do, what a source or a variable may cost, and what it cannot reach. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readPart, RENDERED_MAX } from './liquid.ts';
import { Work, WORK_MAX } from './work.ts';
import { CHARACTER } from '../../test/support/characters.ts';
import { cpuMs } from '../../test/support/cpu.ts';

type Values = Record<string, unknown>;

function render(source: string, values: Values = {}, isHtml = true): string {
  const part = readPart(source, { isHtml });
  if ('problem' in part) return part.problem;
  const result = part.render(values, new Work());
  return 'text' in result ? result.text : result.problem;
}

const many = (count: number, item: (index: number) => unknown) =>
  Array.from({ length: count }, (_, index) => item(index));

test('the language has the features that templates of emails need', () => {
  const items = [
    { name: 'Tea', price: 2.5, count: 2 },
    { name: 'Jam', price: 4, count: 1 },
  ];
  const source =
    '{% for item in items %}{{ forloop.index }}. {{ item.name | upcase }} ' +
    '{{ item.price | times: item.count | round: 2 }}{% unless forloop.last %}, {% endunless %}' +
    '{% endfor %} {% case plan %}{% when "a", "b" %}small{% else %}big{% endcase %} ' +
    '{{ items | where: "count", 2 | map: "name" | join: "+" }} {{ items.size }}';
  assert.equal(render(source, { items, plan: 'b' }), '1. TEA 5, 2. JAM 4 small Tea 2');
  assert.equal(
    render('{{ at | date: "%-d %B %Y, %H:%M" }}', { at: '2026-01-02T03:04:05+01:00' }),
    '2 January 2026, 02:04',
  );
  assert.equal(
    render('{% comment %}{{ x }}{% endcomment %}{% raw %}{{ y }}{% endraw %}'),
    '{{ y }}',
  );
});

test('filters accept items that lack a property, outputs refuse them', () => {
  const list = [{ x: 1 }, { y: 1 }];
  assert.equal(render('{{ list | where: "x", 1 | size }}', { list }), '1');
  assert.match(render('{% for a in list %}{{ a.x }}{% endfor %}', { list }), /uses a\.x, which/);
});

test('templates cannot reach JavaScript', () => {
  for (const path of ['constructor', '__proto__', 'toString', 'constructor.constructor']) {
    assert.match(render(`{{ a.${path} }}`, { a: {} }), /which has no value/, path);
    assert.match(render(`{{ a["${path}"] }}`, { a: 'x' }), /which has no value|^$/, path);
    assert.match(render(`{{ ${path} }}`), /which has no value/, path);
  }
});

test('templates cannot read the current time', () => {
  assert.match(render('{{ "now" | date: "%Y" }}'), /not known to templates/);
  assert.match(render('{{ t | date: "%Y" }}', { t: 'today' }), /not known to templates/);
});

test('the variables of a template are those that it reads without assigning them', () => {
  const source =
    '{% assign a = b.c | plus: d[e.f] %}{% for x in (1..g) %}{{ x }}{{ a }}{{ forloop.index }}' +
    '{% if h == i and x contains j %}{% endif %}{% endfor %}{% capture k %}{{ l }}{% endcapture %}{{ k }}{{ x }}' +
    '{% case m %}{% when n %}{% endcase %}{{ "s" | append: o }}{{ ["p"] }}';
  const part = readPart(source, { isHtml: true });
  assert.ok('variables' in part);
  assert.deepEqual(part.variables.toSorted().join(''), 'bdeghijlmnopx');
});

test('values of variables are escaped in html, wherever they come from', () => {
  const source = fc.constantFrom(
    '{{ v }}',
    '{{ v | append: v }}',
    '{% assign w = v | upcase %}{{ w }}',
    '{% for c in l %}{{ c }}{% endfor %}',
    '{{ l | join: v }}',
    '{{ none | default: v }}',
    '{% if true %}{% capture w %}{{ v }}{% endcapture %}{{ w }}{% endif %}',
  );
  fc.assert(
    fc.property(
      source,
      fc.string({ unit: fc.constantFrom('<', '>', '"', "'", '&', 'a') }),
      (s, v) => {
        assert.doesNotMatch(
          render(s, { v, l: [v, v], none: null }),
          /[<>"']|&(?!(amp|lt|gt|#34|#39);)/,
        );
      },
    ),
  );
});

test('values of variables are not escaped in plain text', () => {
  fc.assert(
    fc.property(fc.string({ unit: CHARACTER }), fc.string(), (a, b) => {
      assert.equal(render('{{ a }}-{{ b }}', { a, b }, false), `${a}-${b}`);
    }),
  );
});

test('text without tags is rendered as it is', () => {
  const plain = fc.string({ unit: CHARACTER }).filter((text) => !/\{[{%]/.test(text));
  fc.assert(fc.property(plain, (text) => assert.equal(render(text), text)));
});

/** Pieces of the language, combined in any order. Most combinations are refused. */
const PIECES = [
  '{{ a }}', '{{ l | ', 'sort', ' | ', 'join: a', 'replace: "a", a', ' }}', '{% for x in l %}', '{{ x }}',
  '{% endfor %}', '{% if a ', '== l', 'contains a', ' %}', '{% endif %}', '{% else %}', '{% assign a = ',
  'a | append: a', '(1..9999)', '{% capture a %}', '{% endcapture %}', 'a["b', '"]', '.size', '{{', '{%',
  '%}', '}}', '{% raw %}', '{% case l %}', '{% when l %}', '{% endcase %}', ' ', '\n', '<p>', '-%}', "'",
]; // prettier-ignore

test('every source results in a text or in a sentence with the problem', () => {
  const source = fc.array(fc.constantFrom(...PIECES), { maxLength: 30 }).map((all) => all.join(''));
  const values = { a: 'aba', l: ['b', ['a', 1], { b: null }] };
  fc.assert(
    fc.property(source, (text) => {
      assert.equal(typeof render(text, values), 'string');
    }),
    { numRuns: 2_000 },
  );
});

test('the same template with the same variables takes the same work', () => {
  const source = fc.array(fc.constantFrom(...PIECES), { maxLength: 20 }).map((all) => all.join(''));
  const left = (text: string) => {
    const work = new Work();
    const part = readPart(text, { isHtml: true });
    if ('render' in part) part.render({ a: 'aba', l: ['b', 'a'] }, work);
    return work.left;
  };
  fc.assert(fc.property(source, (text) => assert.equal(left(text), left(text))));
});

const TOO_MUCH = /^takes too much work/;
const words = 'ab '.repeat(60_000);
const list = many(5_000, (index) => `k${(index * 7_919) % 5_000}`);
const objects = many(500, (index) => ({ a: `k${index}` }));
const big = Object.fromEntries(many(5_000, (index) => [`k${index}`, index]) as [string, number][]);
const forever = (body: string) => `{% for i in (1..100000) %}${body}{% endfor %}`;

/** Sources that people may send who can only send with a template, or write one. */
const BOMBS: Record<string, [source: string, values?: Values]> = {
  'loops in loops': [forever(forever(forever('x')))],
  'loops without a body': [forever(forever(''))],
  'a huge range': ['{% for i in (1..100000000) %}{% endfor %}'],
  'ranges in a loop': [forever('{% assign r = (1..100000) %}')],
  'a text that doubles': [forever('{% assign a = a | append: a %}'), { a: 'aaaa' }],
  'a captured text that doubles': [
    forever('{% capture b %}{{ a | raw }}{{ a | raw }}{% endcapture %}{% assign a = b %}'),
    { a: 'aaaa' },
  ],
  'a list that doubles': [forever('{% assign l = l | concat: l %}'), { l: [1] }],
  'a text in place of each of its letters': [
    forever('{% assign a = a | replace: "a", a %}'),
    { a: 'aaaa' },
  ],
  'a text between each of its letters': [
    '{% assign l = a | split: "" | join: a %}{{ l }}',
    { a: 'a'.repeat(10_000) },
  ],
  'a search that goes back': [
    forever('{% if a contains b %}{% endif %}'),
    { a: 'a'.repeat(50_000), b: `b${'a'.repeat(20_000)}` },
  ],
  'a sorted list': [forever('{% assign b = l | sort %}'), { l: list }],
  'a list sorted by property': [forever('{% assign b = l | sort: "a" %}'), { l: objects }],
  'items with a property': [forever('{% assign b = l | where: "a", "k1" %}'), { l: objects }],
  sums: [forever('{{ l | sum: "a" }}'), { l: objects }],
  'a long path of properties': [
    '{% assign b = l | map: p %}',
    { l: objects, p: many(60_000, () => 'a').join('.') },
  ],
  dates: [forever('{{ d | date: "%A %B %c" }}'), { d: '2026-01-02T03:04:05Z' }],
  'a long condition': [forever(`{% if ${'a or '.repeat(800)}a %}{% endif %}`), { a: false }],
  'many conditions': [
    forever(`{% if a %}${'{% elsif a or a %}'.repeat(1_500)}{% endif %}`),
    { a: false },
  ],
  'many cases': [
    forever(`{% case a %}${'{% when "b", "c" %}'.repeat(1_500)}{% endcase %}`),
    { a: 'z' },
  ],
  'cases of lists': [forever('{% case l %}{% when m %}{% endcase %}'), { l: list, m: [...list] }],
  'equal lists': [forever('{% if l == m %}{% endif %}'), { l: list, m: [...list] }],
  'the size of an object': [forever('{{ o.size }}'), { o: big }],
  'a loop over an object': [forever('{% for p in o limit: 1 %}{% endfor %}'), { o: big }],
  'a reversed list': [forever('{% for p in l reversed limit: 1 %}{% endfor %}'), { l: list }],
  'a printed list': [forever('{{ l }}'), { l: list }],
  'a search for a text in a list that becomes one': [
    '{{ l | replace: b, "c" | size }}',
    { l: ['a'.repeat(20_000), 'a'.repeat(20_000)], b: `b${'a'.repeat(15_000)}` },
  ],
  'a list that is split as a text': [
    forever('{% assign m = l | split: "" %}'),
    { l: ['a'.repeat(38_000)] },
  ],
  'a list that is escaped': [forever('{{ l }}'), { l: ['<&"'.repeat(10_000)] }],
  'texts that are cases': [
    forever(`{% case a %}{% when ${many(100, () => 'b').join(', ')} %}{% endcase %}`),
    { a: `${'a'.repeat(100_000)}x`, b: `${'a'.repeat(100_000)}y` },
  ],
  'characters to trim': [
    forever('{% assign b = w | strip: w %}'),
    { w: many(20_000, (index) => String.fromCharCode(0x4e00 + index)).join('') },
  ],
  'lists within a list that is joined': [
    forever('{% assign b = l | join %}'),
    { l: many(50, () => many(100, () => ['a'])) },
  ],
  'deep loops': [`${'{% for i in (1..9) %}'.repeat(32)}x${'{% endfor %}'.repeat(32)}`],
  'many filters': [forever(`{{ a${'|upcase'.repeat(2_000)} }}`), { a: 'x' }],
  'much text': [forever('<p>hello</p>'.repeat(20_000))],
  words: [forever('{{ w | truncatewords: 5 }}'), { w: words }],
  spaces: [forever('{{ w | squish }}{{ w | strip }}'), { w: ' \n'.repeat(60_000) }],
  'encoded text': [forever('{% assign b = w | url_encode %}'), { w: 'ü€'.repeat(30_000) }],
  'text that is escaped': [forever('{{ w }}'), { w: '<&"'.repeat(10_000) }],
  'text that is escaped once': [forever('{{ w | escape_once }}'), { w: '<&amp;'.repeat(10_000) }],
  'letters that change': [
    forever('{% assign b = w | upcase | downcase %}'),
    { w: 'ßü'.repeat(30_000) },
  ],
};

for (const [what, [source, values]] of Object.entries(BOMBS)) {
  test(`too much work is refused: ${what}`, () => {
    assert.match(render(source, values), TOO_MUCH);
  });
}

/** Each use would convert the list to text. */
const CONVERTED: Record<string, string> = {
  'the limit of a loop': '{% for x in o limit: l %}{% endfor %}',
  'the offset of a loop': '{% for x in o offset: l %}{% endfor %}',
  'the end of a range': '{% for x in (1..l) %}{% endfor %}',
  'the start of a range': '{% assign r = (l..1) %}',
  'the end of a range in a filter': '{{ o | concat: (1..l) | size }}',
  'a long text as the end of a range': '{% for x in (1..t) %}{% endfor %}',
  'a part of a text': '{% if t contains l %}{% endif %}',
  'a part of a text to replace': '{{ t | replace: l, "x" }}',
  'what is put between': '{{ o | join: l }}',
  'a property': '{{ o | map: l }}',
  'a time': '{{ l | date: "%Y" }}',
};

for (const [what, source] of Object.entries(CONVERTED)) {
  test(`a list is refused where a text or a number is expected: ${what}`, () => {
    const values = { l: list, o: [1, 2, 3], t: '1'.repeat(38_000) };
    assert.match(render(forever(source), values), /^cannot be rendered: a (?:list|text)/);
  });
}

test('a short text counts as a number, and a list as a text where it is printed or changed', () => {
  const values = { n: '2', l: ['a', ['b', null, 1]] };
  assert.equal(render('{% for x in (1..n) limit: n %}{{ x }}{% endfor %}', values), '12');
  assert.equal(render('{{ l }} {{ l | upcase }} {{ l | append: "!" }}', values), 'ab1 AB1 ab1!');
});

const UNREADABLE: Record<string, string> = {
  'open outputs': '{{'.repeat(120_000),
  'open tags': '{% if '.repeat(40_000),
  'open quotes': `{{ ${'"a'.repeat(100_000)} }}`,
  'open raw': '{% raw %}'.repeat(29_000),
  'brackets in brackets': `{{ a${'[a'.repeat(20_000)} }}`,
  'tags in tags': '{% if a %}'.repeat(1_000) + '{% endif %}'.repeat(1_000),
  'many outputs': '{{a}}'.repeat(50_000),
  'long tags': `{{ a${'|upcase'.repeat(10_000)} }}`,
  'too long': 'x'.repeat(300_000),
};

for (const [what, source] of Object.entries(UNREADABLE)) {
  test(`a source is refused before it takes long: ${what}`, () => {
    assert.ok('problem' in readPart(source, { isHtml: true }));
  });
}

/** Milliseconds of this thread's processor time, so that other processes do not count. */
const BUSY_MAX_MS = 150;

test('no source keeps the process busy for long', () => {
  const lists = { l: list, o: [1, 2, 3], t: '1'.repeat(38_000) };
  const all = [
    ...Object.values(BOMBS),
    ...Object.values(CONVERTED).map((source) => [forever(source), lists] as const),
    ...Object.values(UNREADABLE).map((source) => [source] as const),
  ];
  for (const [source, values] of all) {
    const took = Math.min(...[1, 2].map(() => cpuMs(() => render(source, values))));
    assert.ok(took < BUSY_MAX_MS, `${took} ms: ${source.slice(0, 80)}`);
  }
});

test('ordinary emails are far from the limits', () => {
  const rows = many(300, (index) => ({ name: `Item ${index}`, price: index, note: null }));
  const source =
    '{% for row in rows %}<tr><td>{{ row.name }}</td><td>{{ row.price | round: 2 }}</td>' +
    '<td>{% if row.note %}{{ row.note }}{% endif %}</td></tr>{% endfor %}';
  const part = readPart(source, { isHtml: true });
  assert.ok('render' in part);
  const work = new Work();
  const result = part.render({ rows }, work);
  assert.ok('text' in result, JSON.stringify(result));
  assert.ok(work.left > WORK_MAX / 2, `${work.left} units are left`);
});

test('a rendered text that is too long is refused', () => {
  const source = 'x'.repeat(50_000);
  assert.match(render(`{% for i in (1..30) %}${source}{% endfor %}`), /is longer than/);
  assert.equal(render(`{% for i in (1..20) %}${source}{% endfor %}`).length, 1_000_000);
  assert.ok(RENDERED_MAX >= 1_000_000);
});
