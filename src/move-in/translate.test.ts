/**
 * Translation of Handlebars to Liquid. What is translated is also rendered, so that the results are compared and not
 * the text.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuMs } from '../../test/support/cpu.ts';
import { readPart } from '../templates/liquid.ts';
import { SYNTAXES, type Syntax, translatePart, variablesOfParts } from './translate.ts';
import { Work } from '../templates/work.ts';

type Options = { syntax?: Syntax; isHtml?: boolean };

function translated(source: string, { syntax = 'handlebars', isHtml = true }: Options = {}) {
  const part = translatePart(source, { syntax, isHtml });
  return { ...part, variables: variablesOfParts([part]) };
}

function rendered(source: string, values: object, options: Options = {}): string {
  const { liquid, problems, variables } = translated(source, options);
  assert.deepEqual(problems, [], source);
  const read = readPart(liquid, { isHtml: options.isHtml ?? true });
  assert.ok('render' in read, JSON.stringify(read));
  const defaults = variables.flatMap(({ name, default: value }) =>
    value === undefined ? [] : [[name, value]],
  );
  const result = read.render({ ...Object.fromEntries(defaults), ...values }, new Work());
  assert.ok('text' in result, `${liquid}: ${JSON.stringify(result)}`);
  return result.text;
}

const problemsIn = (source: string, options?: Options) =>
  translated(source, options).problems.map(({ line, message }) => `${line}: ${message}`);

test('a value is escaped in html by two braces, and not by three or an ampersand', () => {
  const values = { x: '<b>"&' };
  assert.equal(
    rendered('{{x}}|{{ x }}|{{{x}}}|{{& x}}', values),
    `${'&lt;b&gt;&#34;&amp;|'.repeat(2)}<b>"&|<b>"&`,
  );
  assert.equal(rendered('{{x}}{{{x}}}', values, { isHtml: false }), '<b>"&<b>"&');
});

test('a condition is true where it is true in Handlebars', () => {
  const source =
    '{{#if x}}yes{{else}}no{{/if}} {{#unless x}}no{{else}}yes{{/unless}} {{^x}}no{{/x}}';
  for (const x of ['', 0, false, null, []]) assert.equal(rendered(source, { x }), 'no no no');
  for (const x of ['a', '0', ' ', 1, true, [1], { a: 1 }]) {
    assert.equal(rendered(source, { x }), 'yes yes ');
  }
  assert.equal(rendered('{{#if x includeZero=true}}yes{{/if}}', { x: 0 }), 'yes');
  const chain = '{{#if a}}A{{else if b}}B{{else}}C{{/if}}';
  assert.equal(rendered(chain, { b: true }), 'B');
  assert.equal(rendered(chain, {}), 'C');
});

test('a loop has its item, position, outer names and a part for an empty list', () => {
  const source =
    '{{#each items}}{{@index}}{{#if @last}}.{{/if}} {{name}}{{this.name}} {{../shop}} {{@root.shop}}' +
    '{{#each tags}}[{{this}}{{@first}}]{{else}}none{{/each}}\n{{else}}empty{{/each}}';
  const items = [{ name: 'Tea', tags: ['a', 'b'] }, { name: '<' }];
  const text = '0 TeaTea S S[atrue][bfalse]\n1. &lt;&lt; S Snone\n';
  assert.equal(rendered(source, { shop: 'S', items }), text);
  assert.equal(rendered(source, { shop: 'S' }), 'empty');
  assert.equal(
    rendered(
      '{{#each items as |one n|}}{{n}}{{one.name}}{{#each one.tags as |t|}}{{t}}{{n}}{{/each}}{{/each}}',
      {
        items: [{ name: 'Tea', tags: ['a'] }],
      },
    ),
    '0Teaa0',
  );
});

test('members, positions, names in brackets and blocks about an object are read', () => {
  const order = { note: 'x', lines: [{ sku: '7' }], 'unit price': 3 };
  const source =
    '{{order.note}} {{order.lines.[0].sku}} {{order/lines.0.sku}} {{order.[unit price]}}';
  assert.equal(rendered(source, { order }), 'x 7 7 3');
  assert.equal(rendered('{{order.none}}{{order.a.b}}|', { order }), '|');
  const scoped =
    '{{#with order}}{{note}}{{#with lines}}{{0.sku}}{{/with}}{{../order.note}}{{else}}none{{/with}}';
  assert.equal(rendered(scoped, { order }), 'x7x');
  assert.equal(rendered(scoped, {}), 'none');
});

test('comments are dropped, and escaped tags and the signs of Liquid stay text', () => {
  assert.equal(rendered('a{{! no }}b{{!-- {{x}} }} --}}c', {}), 'abc');
  assert.equal(
    rendered(String.raw`\{{x}} {% if %} {%raw%} \\{{x}}`, { x: 1 }),
    String.raw`{{x}} {% if %} {%raw%} \1`,
  );
  // Only a comment separates the braces.
  assert.equal(rendered('{{! }}a{ {{! }}{ b{{! }}{% c', {}), 'a{ { b{% c');
  assert.equal(rendered('{x: {{x}}} {{! a }}{ {{x}}', { x: 1 }), '{x: 1} { 1');
});

test('white space is removed by tildes, and lines with a block alone leave no empty line', () => {
  assert.equal(rendered('a {{~x~}} b', { x: 1 }), 'a1b');
  assert.equal(rendered('a {{~! c ~}} b', {}), 'ab');
  assert.equal(rendered('a {{~#if x~}} b {{~/if~}} c', { x: 1 }), 'abc');
  const source =
    'Hi\n{{#each items}}\n  - {{this}}\n{{/each}}\n  {{! note }}\nBye {{#if x}}\nyes{{/if}}\n';
  const values = { items: ['a', 'b'], x: true };
  assert.equal(rendered(source, values, { isHtml: false }), 'Hi\n  - a\n  - b\nBye \nyes\n');
});

test("SendGrid's comparisons and its insert are translated", () => {
  const source =
    '{{#equals plan "gold"}}G{{else}}S{{/equals}}{{#greaterThan count 2}}many{{/greaterThan}}{{insert name "default=friend"}}';
  assert.equal(rendered(source, { plan: 'gold', count: 3 }), 'Gmanyfriend');
  assert.equal(rendered(source, { plan: 'x', count: 1, name: 'Jo' }), 'SJo');
  assert.deepEqual(translated(source).variables, [
    { name: 'plan', type: 'string' },
    { name: 'count', type: 'number' },
    { name: 'name', type: 'string', default: '' },
  ]);
});

test('variables are declared with the types that their uses suggest', () => {
  const { variables } = translated(
    '{{a}}{{#if b}}{{/if}}{{#if c}}{{c}}{{/if}}{{#each d}}{{e}}{{../f}}{{/each}}{{g.h}}{{#with i}}{{j}}{{/with}}',
  );
  assert.deepEqual(variables, [
    { name: 'a', type: 'string' },
    { name: 'b', type: 'boolean', default: false },
    { name: 'c', type: 'string', default: '' },
    { name: 'd', type: 'list', default: [] },
    { name: 'f', type: 'string' },
    { name: 'g', type: 'object' },
    { name: 'i', type: 'object', default: {} },
  ]);
});

test('constructs without a translation are reported with their line; the rest is translated', () => {
  const source = [
    '{{name}}',
    '{{> footer}}',
    '{{formatDate at "YYYY"}} {{upper (lower x)}}',
    '{{#list items}}{{name}}{{/list}}',
    '{{#if (or a b)}}{{name}}{{else}}-{{/if}}',
    '{{* inline}}{{#> layout}}x{{/layout}}',
    '{{#each items}}{{@key}}{{../../x}}{{/each}}',
    '{{first-name}}{{this}}{{"text"}}{{}}',
    '{{else}}{{/if}}{{@index}}',
    '{{#if a}}{{/unless}}',
  ].join('\n');
  const problems = problemsIn(source);
  const expected = [
    /^2: the partial \{\{> footer\}\} is not supported; insert its content$/,
    /^3: the helper formatDate is not known to Liquid$/,
    /^3: the helper upper is not known to Liquid$/,
    /^4: the block \{\{#list items\}\} has no translation: write/,
    /^5: the condition of \{\{#if \(or a b\)\}\} has no translation; make it a variable$/,
    /^6: the decorator/,
    /^6: the block \{\{#> layout\}\}/,
    /^7: @key has no translation$/,
    /^7: \.\.\/\.\.\/x is outside of the template$/,
    /^8: first-name cannot be the name of a variable; rename it$/,
    /^8: this means all variables together$/,
    /^8: \{\{"text"\}\} has no translation$/,
    /^8: a tag is empty$/,
    /^9: \{\{else\}\} is outside of a block$/,
    /^9: \{\{\/if\}\} closes no block$/,
    /^9: @index is outside of/,
    /^10: \{\{\/unless\}\} does not close \{\{#if\}\} of line 10$/,
    /^10: \{\{#if\}\} is not closed$/,
  ];
  assert.equal(problems.length, expected.length, problems.join('\n'));
  for (const [index, pattern] of expected.entries()) assert.match(problems[index]!, pattern);
  const { liquid } = translated(source);
  assert.ok('render' in readPart(liquid, { isHtml: true }), liquid);
  assert.deepEqual(problemsIn('a\nb {{x'), ['2: a tag is not closed']);
  assert.deepEqual(problemsIn('{{#if a}}\n{{else}}{{else}}{{else if b}}{{/if}}'), [
    '2: {{#if}} of line 1 has an {{else}} already',
    '2: {{#if}} of line 1 has an {{else}} already',
  ]);
  assert.deepEqual(problemsIn('{{{{raw}}}} {{x}} {{{{/raw}}}}').length, 2);
});

test("Resend's variables are escaped in html, and other tags are reported", () => {
  const values = { NAME: '<Jo>', contact: { first_name: 'Ann' } };
  const resend = { syntax: 'resend' } as const;
  const source = 'Hi {{{NAME}}} {{{ contact.first_name | there }}} {{{CITY|Paris}}} {% x';
  assert.equal(rendered(source, values, resend), 'Hi &lt;Jo&gt; Ann Paris {% x');
  assert.deepEqual(translated(source, resend).variables, [
    { name: 'NAME', type: 'string' },
    { name: 'contact', type: 'object' },
    { name: 'CITY', type: 'string', default: '' },
  ]);
  const problems = problemsIn(
    '{{{A}}}\n{{B}}\n{{#if C}}x{{/if}}{{{RESEND_UNSUBSCRIBE_URL}}}',
    resend,
  );
  assert.deepEqual(
    problems.map((problem) => problem.split(' ', 3).join(' ')),
    ['2: double braces', '3: double braces', '3: double braces', '3: RESEND_UNSUBSCRIBE_URL is'],
  );
});

test('text with backslashes in quotes is rendered unchanged', () => {
  const resend = { syntax: 'resend' } as const;
  const folder = 'C:\\new\\';
  assert.equal(rendered(`{{{FOLDER|${folder}}}} {{{A|\\\\}}}.`, {}, resend), `${folder} \\\\.`);
  assert.equal(rendered(`{{insert folder "default=${folder}"}}`, {}), folder);
  assert.equal(rendered(`{{#equals folder "${folder}"}}same{{/equals}}`, { folder }), 'same');
});

test('translation stops at the limits of tags and depth', () => {
  const deep = [
    '{{#each a}}',
    '{{#with a.b}}',
    '{{#if a}}',
    '{{#each (a)}}{{b}}',
    '{{#with abcdefgh.ijklmnop}}{{c}}',
  ];
  for (const piece of deep) {
    const { liquid, problems } = translated(piece.repeat(20_000));
    assert.match(problems[0]!.message, /has more than 2000 tags/);
    assert.match(problems[1]!.message, /nested more than 32 deep|no translation/);
    assert.ok(liquid.length < 2_000_000, `${liquid.length} characters`);
  }
  const wide = translated('{{{A}}}'.repeat(30_000), { syntax: 'resend' });
  assert.match(wide.problems[0]!.message, /has more than 2000 tags/);
  assert.match(problemsIn(`{{${'a.'.repeat(900)}b}}`)[0]!, /^1: the path a\.a.* longer than 1000/);
});

test('no source takes long, and text never becomes Liquid', () => {
  const pieces = [
    '{{',
    '}}',
    '{{{',
    '}}}',
    '{%',
    '%}',
    '{',
    '\\',
    '#',
    '/',
    '!--',
    '"',
    "'",
    '[',
    '(',
    ' ',
    '\n',
    'x',
    '~',
    '=',
    '|',
  ];
  for (const piece of pieces) {
    for (const syntax of ['handlebars', 'resend'] as const) {
      const long = translated(piece.repeat(Math.floor(200_000 / piece.length)), { syntax });
      assert.ok(long.problems.length <= 100);
      const inTag = translated(`{{x${piece.repeat(90_000)}y}}`, { syntax });
      assert.ok(inTag.problems.length <= 100);
    }
  }
  let state = 7;
  const next = (below: number) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  for (let run = 0; run < 4_000; run += 1) {
    const source = Array.from({ length: next(12) }, () => pieces[next(pieces.length)]).join('');
    for (const syntax of ['handlebars', 'resend'] as const) {
      const { liquid, translated: count } = translated(source, { syntax });
      const read = readPart(liquid, { isHtml: false });
      assert.ok('render' in read, `${JSON.stringify(source)} became ${JSON.stringify(liquid)}`);
      if (count === 0) assert.deepEqual(read.variables, [], liquid);
    }
  }
});

const REPEATED: readonly (readonly [before: string, unit: string, after: string])[] = [
  ['', '\\{{x}} ', ''],
  ['', '\\{{', ''],
  ['', '\\\\{{x}}', ''],
  ['', '{{!-- x --}}', ''],
  ['', '{{~!-- x --~}}', ''],
  ['', '{{!--', ''],
  ['{{!-- ', '--', '}}'],
  ['', `{{x ${'[a'.repeat(950)}}}`, ''],
  ['', `{{x ${'as '.repeat(600)}}}`, ''],
  ['', `{{${'../'.repeat(600)}}}`, ''],
  ['', '{{x', ''],
  ['', '{{x "', ''],
  ['', '{{x}}', ''],
  ['', '{{#each a as |b c|}}', ''],
  ['', '\n{{#if x}} \t\n', ''],
  ['', ' \t', '{{#if x}}'],
  ['', '{{{{x}}}}', ''],
  ['', '{', ''],
  ['', '{%', ''],
  ['{{{a', ' ', 'x}}}'],
  ['', '{{{a|b', ''],
];

test('repeated tags cost no more than other characters', () => {
  for (const syntax of SYNTAXES) {
    for (const [before, unit, after] of REPEATED) {
      const source = before + unit.repeat(500_000 / unit.length) + after;
      const tookMs = cpuMs(() => translatePart(source, { syntax, isHtml: true }));
      const shape = `${syntax}: ${before}${unit.slice(0, 20)}…`;
      assert.ok(tookMs < 2_000, `${shape}: ${tookMs.toFixed(0)} ms`);
    }
  }
});

test('escaped tags count as tags', () => {
  const { problems } = translatePart('\\{{x}} '.repeat(2_001), {
    syntax: 'handlebars',
    isHtml: true,
  });
  assert.deepEqual(problems, [{ line: 1, message: 'has more than 2000 tags' }]);
});
