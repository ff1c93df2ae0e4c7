/** The rules are data. Each must match its own example, and none may be hidden by a rule before it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleFor } from './classify.ts';
import { MEANINGS } from './meanings.ts';
import type { Rule } from './rule-matching.ts';
import { ReplyParser } from './smtp-reply.ts';
import { RULES } from './rules.ts';

test('every rule matches its own example, and no earlier rule does', () => {
  assert.ok(RULES.length >= 150, `${RULES.length} rules`);
  for (const rule of RULES) {
    const bytes = Buffer.from(`${rule.example.replaceAll('\n', '\r\n')}\r\n`);
    const [reply] = new ReplyParser().push(bytes).replies;
    assert.ok(reply, rule.example);
    const found = ruleFor({ phase: rule.phase ?? 'rcpt', reply });
    assert.equal(
      found,
      rule,
      `${rule.example} is recognised as ${found?.meaning}: ${found?.example}`,
    );
  }
});

test('every phrase with every code of its rule is matched by that rule, not by an earlier one', () => {
  for (const rule of RULES) {
    for (const phrase of phrasesOf(rule)) {
      for (const detail of rule.enhanced ?? [null]) {
        const reply = replyWith(rule, phrase, detail);
        const found = ruleFor({ phase: rule.phase ?? 'rcpt', reply });
        assert.equal(found, rule, `${detail} ${phrase} is recognised as ${found?.example}`);
      }
    }
  }
});

test('the phrases of every rule are in the form in which they are compared', () => {
  for (const phrase of RULES.flatMap((rule) => rule.text?.split(' | ') ?? [])) {
    assert.equal(phrase, phrase.toLowerCase().trim().replaceAll(/\s+/g, ' '));
    assert.ok(phrase.length > 2 && !phrase.includes('@') && !phrase.includes('|'), phrase);
    for (const part of phrase.split(' + ')) assert.ok(part.trim().length > 1, phrase);
  }
});

test('every category has a responsible party and one sentence of advice', () => {
  const meanings = Object.values(MEANINGS);
  const categories = new Set(meanings.map(({ category }) => category));
  assert.equal(categories.size, 11, [...categories].join(', '));
  for (const { blame, advice } of meanings) {
    assert.ok(['recipient', 'receiver', 'sender', 'us'].includes(blame), advice);
    assert.match(advice, /^[A-Z][^\n]*[^.]\.$/);
    assert.ok(!/\. [A-Z]/.test(advice), `more than one sentence: ${advice}`);
  }
});

test('every meaning of a reply has a rule', () => {
  const used = new Set<string>(RULES.map((rule) => rule.meaning));
  const withoutRule = Object.keys(MEANINGS).filter((name) => !used.has(name));
  assert.deepEqual(withoutRule, [
    'session_refused',
    'unknown_permanent',
    'unknown_temporary',
    'unreachable',
    'connection_lost',
    'lost_in_doubt',
    'protocol_violated',
    'lease_lost',
    'no_mail_host',
    'no_public_host',
    'dns_unavailable',
    'returned_without_reason',
  ]);
});

function phrasesOf(rule: Rule): readonly string[] {
  return rule.text?.split(' | ') ?? [''];
}

/** Returns a reply that says only this phrase. */
function replyWith(rule: Rule, phrase: string, detail: string | null) {
  const code = rule.codes?.[0] ?? Number(rule.example.slice(0, 3));
  const [subject] = detail?.replace('*', '0').split('-') ?? [];
  const message = phrase.replace('^', '').replaceAll(' + ', ' ... ');
  return {
    code,
    enhancedCode: subject === undefined ? null : `${Math.floor(code / 100)}.${subject}`,
    message,
  };
}
