/** The alarm rules and dashboards in deploy/ fit the service, and each alarm has a page whose commands work. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONDITION_TYPES } from '../../src/core/operator-events.ts';
import { parseCommandLine } from '../support/command-lines.ts';
import { documentedMetrics } from '../support/documented-metrics.ts';
import {
  alarmsAreComplete,
  alarmsAreTested,
  alarmsHavePages,
  commandsIn,
  loggedTextsIn,
  metricsExist,
} from './alarm-kit.ts';
import { dashboardsAreComplete, parseDashboard } from './dashboard-files.ts';
import { holds } from './holds.ts';
import { readFiles } from './source.ts';

const RULES = readFiles(['deploy/prometheus/*.rules.yml']);
const RULE_TESTS = readFiles(['deploy/prometheus/*.test.yml']);
const DASHBOARDS = readFiles(['deploy/grafana/*.json']);
const PAGES = readFiles(['docs/alarms/*.md']);
const INDEX = readFiles(['docs/monitoring.md']);

test('the files are found', () => {
  assert.ok(RULES.length === 1 && RULE_TESTS.length > 1 && DASHBOARDS.length > 1);
  assert.ok(PAGES.length > 30);
});

const GOOD = `
      - alert: LetterhausMailWaits
        expr: letterhaus_depth > 1
        for: 1m
        labels: { severity: page }
        annotations:
          summary: 'Mail waits'
          description: 'Look.'
          runbook_url: https://github.com/letterhaus/letterhaus/blob/main/docs/alarms/mail-waits.md
`;

holds('an alarm says what happens, what to do and where to read on', RULES, alarmsAreComplete, [
  ['deploy/a.rules.yml', GOOD],
  [
    'deploy/b.rules.yml',
    GOOD.replace('for: 1m', 'for: soon'),
    'has LetterhausMailWaits without for.',
  ],
  [
    'deploy/c.rules.yml',
    GOOD.replace('mail-waits.md', 'mail.md'),
    'has LetterhausMailWaits without the address of its page.',
  ],
  [
    'deploy/d.rules.yml',
    GOOD.replace('severity: page', 'severity: high'),
    'has LetterhausMailWaits without severity.',
  ],
]);

const METRICS = documentedMetrics();
const EXAMPLE_METRICS = [
  { name: 'letterhaus_depth', type: 'gauge', labels: ['of'], isAlways: true },
  { name: 'letterhaus_wait_seconds', type: 'histogram', labels: [], isAlways: true },
];

test('alarms, their tests, dashboards and pages name metrics and labels that exist', () => {
  assert.ok(METRICS.length > 60);
  const files = [...RULES, ...RULE_TESTS, ...DASHBOARDS, ...PAGES];
  assert.deepEqual(metricsExist(METRICS)(files), []);
});

holds('a metric or label that does not exist would be found', [], metricsExist(EXAMPLE_METRICS), [
  ['a.yml', 'letterhaus_depth{of="a", job="b"} > 1'],
  ['b.json', '"expr": "sum by (le) (letterhaus_wait_seconds_bucket{job=\\"$job\\"})"'],
  ['c.yml', 'letterhaus_deep > 1', 'uses letterhaus_deep, which is no metric.'],
  ['d.yml', 'letterhaus_depth_count > 1', 'uses letterhaus_depth_count, which is no metric.'],
  [
    'e.json',
    '"expr": "letterhaus_depth{in=~\\"a\\"}"',
    'uses the label in of letterhaus_depth, which has none.',
  ],
]);

test('each alarm has a page with its four parts, and each page an alarm', () => {
  assert.deepEqual(alarmsHavePages([...RULES, ...PAGES, ...INDEX]), []);
  const rules = { path: 'deploy/a.rules.yml', text: GOOD };
  assert.deepEqual(alarmsHavePages([rules]), [
    'LetterhausMailWaits has no page docs/alarms/mail-waits.md.',
  ]);
  const pages = [
    { path: 'docs/alarms/mail-waits.md', text: '# Mail waits\n\n## What to do\n' },
    { path: 'docs/alarms/gone.md', text: '# LetterhausGone\n' },
  ];
  assert.deepEqual(alarmsHavePages([rules, ...pages]), [
    'docs/alarms/mail-waits.md does not begin with # LetterhausMailWaits.',
    'docs/alarms/mail-waits.md has other headings.',
    'docs/alarms/mail-waits.md is not linked in docs/monitoring.md.',
    'docs/alarms/gone.md is about no alarm.',
  ]);
});

test('each alarm fires in a test for promtool, and is quiet in one', () => {
  assert.deepEqual(alarmsAreTested([...RULES, ...RULE_TESTS]), []);
  const rules = { path: 'deploy/a.rules.yml', text: GOOD };
  const text = `      - eval_time: 1m\n        alertname: LetterhausMailWaits\n        exp_alerts:\n`;
  const tests = { path: 'deploy/a.test.yml', text };
  assert.deepEqual(alarmsAreTested([rules, tests]), ['LetterhausMailWaits is quiet in no test.']);
  assert.deepEqual(alarmsAreTested([rules]), [
    'LetterhausMailWaits fires in no test.',
    'LetterhausMailWaits is quiet in no test.',
  ]);
});

test('the conditions that have an alarm of their own exist', () => {
  const [, types = ''] = /type!~"([^"]+)"/.exec(RULES[0]!.text) ?? [];
  const known: readonly string[] = CONDITION_TYPES;
  assert.deepEqual(
    types.split('|').filter((type) => !known.includes(type)),
    [],
  );
});

test('the commands of the pages are accepted by the command line', async () => {
  const lines = new Set(PAGES.flatMap(({ text }) => commandsIn(text)));
  assert.ok(lines.size > 40, String(lines.size));
  for (const line of lines) assert.notEqual(await parseCommandLine(line), null, line);
  await assert.rejects(parseCommandLine('queue --slow'), { name: 'CommanderError' });
});

test('what the pages search for in the log is logged', () => {
  const source = readFiles(['src/**/*.ts'])
    .filter(({ path }) => !path.endsWith('.test.ts'))
    .map(({ text }) => text)
    .join('\n');
  const searched = new Set(PAGES.flatMap(({ text }) => loggedTextsIn(text)));
  assert.ok(searched.size > 8, String(searched.size));
  assert.deepEqual(
    [...searched].filter((text) => !source.includes(text)),
    [],
  );
});

const PANEL = {
  id: 1,
  type: 'timeseries',
  title: 'Queue',
  description: 'Waiting mail.',
  gridPos: { x: 0, y: 0, w: 12, h: 8 },
  targets: [{ refId: 'A', expr: 'up{job="$job"}', datasource: { uid: '${datasource}' } }],
};
const DASHBOARD = {
  uid: 'letterhaus-a',
  title: 'Letterhaus: a',
  schemaVersion: 42,
  templating: { list: [{ name: 'datasource' }, { name: 'job' }] },
  panels: [PANEL],
};
const withPanel = (panel: object): string =>
  JSON.stringify({ ...DASHBOARD, panels: [PANEL, { ...PANEL, ...panel }] });

holds('a dashboard can be imported as it is', DASHBOARDS, dashboardsAreComplete, [
  ['a.json', JSON.stringify(DASHBOARD)],
  ['b.json', JSON.stringify({ ...DASHBOARD, schemaVersion: 16 }), 'has not the schema 42.'],
  ['c.json', withPanel({ gridPos: { x: 12, y: 0, w: 12, h: 8 } }), 'has two panels with one id.'],
  ['d.json', withPanel({ id: 2, gridPos: { x: 11, y: 7, w: 12, h: 8 } }), 'has overlaps.'],
  [
    'e.json',
    withPanel({ id: 2, gridPos: { x: 13, y: 0, w: 12, h: 8 } }),
    'has a panel "Queue" that is wider than the page.',
  ],
  [
    'f.json',
    withPanel({
      id: 2,
      gridPos: { x: 12, y: 0, w: 12, h: 8 },
      targets: [{ ...PANEL.targets[0], expr: 'up' }],
    }),
    'has a panel "Queue" that asks without the job.',
  ],
]);

test('the dashboards that pages name are there', () => {
  const titles = DASHBOARDS.map(({ text }) => parseDashboard(text).title);
  const named = PAGES.flatMap(({ text }) =>
    [...text.matchAll(/dashboard\s+"([^"]+)"/g)].map(([, title]) => title),
  );
  assert.ok(named.length > 2);
  assert.deepEqual(
    named.filter((title) => !titles.includes(title)),
    [],
  );
});
