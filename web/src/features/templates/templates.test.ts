/** Drafts of the template editor, and the diff of versions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Content,
  contentOf,
  discarded,
  type Draft,
  draftOf,
  firstSamples,
  followed,
  samplesOf,
  stateOf,
  withType,
} from './draft.ts';
import { diffLines } from './line-diff.ts';

const STORED: Content = {
  subject: 'Hello {{ name }}',
  html: '<p>{{ total }}</p>',
  text: null,
  variables: [{ name: 'name' }, { name: 'total', type: 'number', default: 1 }],
};

function sampled(draft: Draft, sample: string): Draft {
  return { ...draft, variables: draft.variables.map((one) => ({ ...one, sample })) };
}

test('a draft becomes the content that it began with', () => {
  assert.deepEqual(contentOf(draftOf(STORED)), {
    ...STORED,
    variables: [
      { name: 'name', type: 'string' },
      { name: 'total', type: 'number', default: 1 },
    ],
  });
});

test('samples are typed as JSON, and optional ones may be left out', () => {
  const { variables } = draftOf(STORED);
  assert.deepEqual(samplesOf(variables), { name: 'name' });
  assert.deepEqual(firstSamples([{ name: 'items', type: 'list' }]), { items: [] });
  const [name, total] = variables;
  assert.deepEqual(samplesOf([name!, { ...total!, sample: '2.5' }]), { name: 'name', total: 2.5 });
  assert.throws(
    () => samplesOf([{ ...withType(name!, 'list'), sample: '[' }]),
    /sample value of name .*\[\{"name": "Tea"\}\]/,
  );
});

test('nothing typed: the draft follows what is stored, and typed samples stay', () => {
  const base = draftOf(STORED);
  const stored = draftOf({ ...STORED, subject: 'Hi {{ name }}' });
  const { draft } = followed({ base, draft: sampled(base, 'Jo') }, stored);
  assert.equal(draft.subject, 'Hi {{ name }}');
  assert.deepEqual(
    draft.variables.map(({ sample }) => sample),
    ['Jo', 'Jo'],
  );
});

test('something typed: a change elsewhere is reported and replaces nothing', () => {
  const base = draftOf(STORED);
  const typed = { base, draft: { ...base, html: '<p>typed</p>' } };
  const stored = draftOf({ ...STORED, subject: 'Hi {{ name }}' });
  assert.equal(followed(typed, stored), typed);
  assert.equal(stateOf(typed, stored).isOutdated, true);
  assert.equal(stateOf(typed, draftOf(STORED)).isOutdated, false);
  const { draft } = discarded(typed, stored);
  assert.equal(draft.subject, 'Hi {{ name }}');
  assert.equal(draft.html, STORED.html);
});

test('what is saved is not reported as a change elsewhere, however the service writes JSON', () => {
  const base = draftOf(STORED);
  const [name, total] = base.variables;
  const draft = { ...base, text: 'x', variables: [name!, { ...total!, fallback: ' 1.0' }] };
  const saved = draftOf({ ...STORED, text: 'x' });
  assert.deepEqual(stateOf({ base, draft }, saved), {
    isChanged: true,
    isOutdated: false,
    isNewer: true,
    isSaved: true,
  });
  const editing = followed({ base, draft }, saved);
  assert.equal(editing.draft, draft, 'what is typed stays as it is');
  assert.equal(stateOf(editing, saved).isChanged, false);
});

function changesOf(before: string, after: string): string {
  const signs = { added: '+', removed: '-', same: ' ', skipped: '~' };
  return diffLines(before, after)
    .map(({ kind, text }) => signs[kind] + text)
    .join('|');
}

test('two texts are compared line by line, and distant lines are left out', () => {
  assert.equal(changesOf('a\nb', 'a\nb'), '');
  assert.equal(changesOf('a\nb\nc', 'a\nx\nc'), ' a|-b|+x| c');
  assert.equal(changesOf('', 'a'), '+a');
  assert.equal(changesOf('a', ''), '-a');
  assert.equal(changesOf('a\nb', 'b\na'), '-a| b|+a');
  assert.equal(changesOf('1\n2\n3\n4\n5\n6', '1\n2\n3\n4\n5\n7'), '~…| 3| 4| 5|-6|+7');
});

test('texts that are too long to compare count as changed', () => {
  const lines = (prefix: string) => Array.from({ length: 2_001 }, (_, i) => prefix + i).join('\n');
  const diff = diffLines(lines('a'), lines('b'));
  assert.equal(diff.length, 4_002);
  assert.ok(diff.slice(0, 2_001).every(({ kind }) => kind === 'removed'));
});
