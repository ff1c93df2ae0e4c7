/** Types of variables, and what the editor completes, from the source of a template. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meteredFilters } from '../../../../src/templates/filters.ts';
import { completingAt, definedNames, FILTERS } from './liquid-words.ts';
import { inferType } from './infer-type.ts';

test('the type of a variable is inferred from its use', () => {
  const uses: [string, string][] = [
    ['{{ it }}', 'string'],
    ['{% for one in it %}{{ one }}{% endfor %}', 'list'],
    ['{{ it | join: ", " }}', 'list'],
    ['{{ it.city }}', 'object'],
    ['{{ it.size }}', 'string'],
    ['{{ it | times: 2 }}', 'number'],
    ['{% if it >= 3 %}many{% endif %}', 'number'],
    ['{% if it %}yes{% endif %}', 'boolean'],
    ['{% if other and it %}yes{% endif %}', 'boolean'],
    ['{% if it %}{{ it }}{% endif %}', 'string'],
    ['{{ other.it }} it.city', 'string'],
    ["{{ 'it.city' }}", 'string'],
  ];
  for (const [source, type] of uses) assert.equal(inferType('it', [source, '']), type, source);
});

test('the editor completes variables, filters and tags where each may stand', () => {
  const places: [string, string | null][] = [
    ['Hello na', null],
    ['{{ na', 'value'],
    ['{{ name | up', 'filter'],
    ['{% ', 'tag'],
    ['{%- en', 'tag'],
    ['{% if na', 'value'],
    ['{{ address.ci', null],
    ['{{ name }} and', null],
  ];
  for (const [text, kind] of places) assert.equal(completingAt(text)?.kind ?? null, kind, text);
});

test('the editor completes names of loops, and the filters that the service knows', () => {
  assert.deepEqual(definedNames('{% for item in items %}{% assign sum = 1 %}{% for item in b %}'), [
    'item',
    'sum',
  ]);
  assert.deepEqual(
    FILTERS,
    meteredFilters()
      .map(([name]) => name)
      .toSorted(),
  );
});
