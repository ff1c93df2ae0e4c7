/** Tests a rule twice: the repository keeps it, and the rule detects a violation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Rule, SourceFile } from './source.ts';

/** `[path, text, offence]`: what the rule says of this file after its path; nothing if it is fine. */
type Example = [path: string, text: string, offence?: string];

/** Two tests of one rule: the tree keeps it, and of the examples it finds exactly the bad ones. */
export function holds(sentence: string, tree: SourceFile[], rule: Rule, examples: Example[]): void {
  test(sentence, () => assert.deepEqual(rule(tree), []));
  test(`${sentence}: what breaks it is noticed`, () => {
    const files = examples.map(([path, text]) => ({ path, text }));
    const offences = examples.filter(([, , offence]) => offence !== undefined);
    assert.deepEqual(
      rule(files),
      offences.map(([path, , offence]) => `${path} ${offence}`),
    );
  });
}
