/** The thresholds of alerts as a function of counts. test/journey/reputation.test.ts pauses a real sender. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  ALERT_KINDS,
  type AlertKind,
  type AlertRule,
  alertChange,
  parsePercent,
  ratePpm,
  showPercent,
  type ActiveAlert,
  DEFAULT_ALERT_RULE as rule,
} from './alert.ts';
import { MINUTE_MS } from '../lib/units.ts';

type Situation = { kind?: AlertKind; active?: ActiveAlert | null; own?: Partial<AlertRule> };

function judge(
  counts: { ended: number; bounced?: number; complained?: number },
  { kind = 'bounce', active = null, own = {} }: Situation = {},
) {
  const all = { bounced: 0, complained: 0, ...counts };
  return alertChange(kind, all, { rule: { ...rule, ...own }, active });
}

test('more than 5 % bounces or 0.3 % complaints among 500 emails raise an alert', () => {
  assert.equal(judge({ ended: 500, bounced: 25 }), 'stays');
  assert.equal(judge({ ended: 500, bounced: 26 }), 'raises');
  assert.equal(judge({ ended: 1000, complained: 3 }, { kind: 'complaint' }), 'stays');
  assert.equal(judge({ ended: 1000, complained: 4 }, { kind: 'complaint' }), 'raises');
  assert.equal(judge({ ended: 1000, complained: 4 }), 'stays', 'complaints are no bounces');
});

test('fewer than 500 emails raise no alert', () => {
  assert.equal(judge({ ended: 499, bounced: 499 }), 'stays');
  assert.equal(judge({ ended: 100, bounced: 6 }, { own: { emailsMin: 100 } }), 'raises');
});

test('an alert ends when the rate has been clearly below the threshold for an hour', () => {
  const at = (bounced: number, belowForMs: number | null) =>
    judge({ ended: 1000, bounced }, { active: { isPaused: false, belowForMs } });
  assert.equal(at(60, null), 'stays');
  assert.equal(at(45, null), 'stays', 'below the threshold, but not clearly');
  assert.equal(at(40, null), 'gets_better');
  assert.equal(at(40, 59 * MINUTE_MS), 'stays');
  assert.equal(at(45, 59 * MINUTE_MS), 'gets_worse');
  assert.equal(at(40, 60 * MINUTE_MS), 'recovers');
  const quiet = { active: { isPaused: false, belowForMs: 60 * MINUTE_MS } };
  assert.equal(judge({ ended: 3, bounced: 3 }, quiet), 'recovers');
});

test('a pause lasts until a command ends it, and alerts that are off are not evaluated', () => {
  const paused = { isPaused: true, belowForMs: 90 * MINUTE_MS };
  assert.equal(judge({ ended: 0 }, { active: paused }), 'stays');
  assert.equal(judge({ ended: 1000, bounced: 900 }, { own: { isOn: false } }), 'stays');
  const active = { isPaused: false, belowForMs: null };
  assert.equal(judge({ ended: 1000, bounced: 900 }, { active, own: { isOn: false } }), 'recovers');
});

test('for any counts, only an inactive alert is raised and only an active one ends', () => {
  const count = fc.nat(100_000);
  fc.assert(
    fc.property(
      fc.constantFrom(...ALERT_KINDS),
      fc.record({ ended: count, bounced: count, complained: count }),
      fc.option(fc.record({ isPaused: fc.boolean(), belowForMs: fc.option(fc.nat(7_200_000)) })),
      (kind, counts, active) => {
        const judgement = alertChange(kind, counts, { rule, active });
        if (active === null) assert.match(judgement, /^(raises|stays)$/);
        else assert.notEqual(judgement, 'raises');
        if (judgement === 'raises') assert.ok(counts.ended >= rule.emailsMin);
      },
    ),
  );
});

test('shares are written as percent', () => {
  assert.equal(parsePercent('5%'), 50_000);
  assert.equal(parsePercent(' 0.3 %'), 3_000);
  assert.equal(parsePercent('100%'), 1_000_000);
  for (const text of ['', '5', '0%', '101%', '-1%', '1e1%', '0.00001%', 'five%']) {
    assert.equal(parsePercent(text), null, text);
  }
  assert.equal(showPercent(ratePpm(1, 3)), '33.3333%');
  assert.equal(showPercent(3_000), '0.3%');
  assert.equal(ratePpm(5, 0), 0);
});
