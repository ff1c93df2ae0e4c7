/**
 * The health of an endpoint as a table of states and outcomes, without a database. sending/sender.test.ts stores it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  nextHealth,
  type AttemptTally,
  type EndpointHealth,
  type HealthFacts,
} from './endpoint-health.ts';
import { DAY_MS } from '../lib/units.ts';

const [SINCE, GONE] = [
  '2026-11-21T08:30:00.123Z',
  'It responded with 410 Gone: it accepts no more webhooks.',
];
const HEALTHY: HealthFacts = {
  status: 'enabled',
  disabledReason: null,
  failures: 0,
  failingSince: null,
  failingForMs: 0,
  wasSuspended: false,
};
const failing = (failures: number, days = 0): HealthFacts => ({
  ...HEALTHY,
  failures,
  failingSince: SINCE,
  failingForMs: days * DAY_MS,
});
const SUCCESS: AttemptTally = {
  hasSucceeded: true,
  failures: 0,
  isGone: false,
  suspendMs: 0,
  attempt: 0,
};
const FAILURE: AttemptTally = { ...SUCCESS, hasSucceeded: false, failures: 1, attempt: 1 };
const after = (
  failures: number,
  suspendedMs: number | null,
  disabledReason: string | null = null,
) => ({
  failures,
  isFailing: true,
  disabledReason,
  suspendedMs,
});
const RECOVERED = { failures: 0, isFailing: false, disabledReason: null };

const TABLE: [string, HealthFacts, AttemptTally, EndpointHealth | null][] = [
  ['a success changes nothing', HEALTHY, SUCCESS, null],
  [
    'a failure beside a success changes nothing',
    HEALTHY,
    { ...SUCCESS, failures: 1, suspendMs: 1 },
    null,
  ],
  ['the first failure is counted', HEALTHY, FAILURE, after(1, null)],
  ['the fourth suspends nothing yet', failing(3), FAILURE, after(4, null)],
  ['the fifth suspends for 5 s', failing(4), FAILURE, after(5, 5_000)],
  ['each further failure doubles the suspension', failing(5), FAILURE, after(6, 10_000)],
  ['failures of one batch are added up', failing(1), { ...FAILURE, failures: 5 }, after(6, 10_000)],
  ['a suspension lasts 5 minutes at most', failing(5_000), FAILURE, after(5_001, 300_000)],
  ['Retry-After suspends at once', HEALTHY, { ...FAILURE, suspendMs: 60_000 }, after(1, 60_000)],
  [
    'the longer of schedule and Retry-After counts',
    failing(4),
    { ...FAILURE, suspendMs: 1_000 },
    after(5, 5_000),
  ],
  [
    'Retry-After counts when it is longer',
    failing(4),
    { ...FAILURE, suspendMs: 9_000 },
    after(5, 9_000),
  ],
  ['a success ends failing', failing(4, 9), SUCCESS, { ...RECOVERED, suspendedMs: null }],
  [
    'a success ends a suspension at once on all nodes',
    { ...failing(7), wasSuspended: true },
    { ...SUCCESS, failures: 3, suspendMs: 1_000 },
    { ...RECOVERED, suspendedMs: 0 },
  ],
  ['410 disables', HEALTHY, { ...FAILURE, isGone: true }, after(1, 0, GONE)],
  [
    '410 disables even beside a success',
    HEALTHY,
    { ...SUCCESS, failures: 1, isGone: true },
    { ...RECOVERED, disabledReason: GONE, suspendedMs: 0 },
  ],
  [
    'almost five days of failures disable nothing',
    failing(9, 4.99),
    { ...FAILURE, attempt: 9 },
    after(10, 160_000),
  ],
  [
    'five days of failures disable',
    failing(9, 5),
    { ...FAILURE, attempt: 2 },
    after(10, 0, `Every attempt since ${SINCE} failed.`),
  ],
  ['a first attempt never disables', failing(1, 30), FAILURE, after(2, null)],
  [
    'an endpoint disabled by a request gets no reason',
    { ...failing(1, 30), status: 'disabled' },
    { ...FAILURE, isGone: true },
    after(2, null),
  ],
  [
    'an endpoint disabled by the service keeps its reason',
    { ...failing(1, 30), status: 'disabled', disabledReason: GONE },
    { ...FAILURE, attempt: 2 },
    after(2, 0, GONE),
  ],
];

for (const [sentence, endpoint, tally, expected] of TABLE) {
  test(`health of an endpoint: ${sentence}`, () => {
    assert.deepEqual(nextHealth(endpoint, tally), expected);
  });
}
