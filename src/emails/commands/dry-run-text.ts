/** Formats the result of a dry run (accept/dry-run/dry-run.ts) as text. */
import type { DryRun } from '../../../sdk/src/api.ts';
import type { AuthenticationFinding, RouteFinding } from '../../core/dns/dns-findings.ts';
import type { Cli } from '../../cli/command.ts';
import { facts, shortTime, table } from '../../cli/table.ts';

export function dryRunText(cli: Cli, dryRun: DryRun): string {
  if (dryRun.outcome === 'replay') {
    return `Nothing would be sent: the idempotency key was used for email ${dryRun.replay_of}.`;
  }
  const { limit, message, sender, recipients, lint } = dryRun;
  const { counts, remaining, window } = limit;
  return [
    facts([
      ['Outcome', OUTCOMES[dryRun.outcome]],
      ['At', dryRun.scheduled_at && shortTime(dryRun.scheduled_at)],
      ['Size', `${message?.size} bytes`],
      ['Limit', `${remaining} of ${limit.limit} ${counts} per ${window} s left`],
    ]),
    ...(sender ? [senderText(cli, sender)] : []),
    table(cli, {
      columns: [
        { heading: 'RECIPIENT', cut: 3 },
        'OUTCOME',
        { heading: 'PROVIDER', cut: 2 },
        { heading: 'MAIL SERVERS', wraps: true },
      ],
      rows: recipients.map((one) => [
        one.address,
        one.outcome,
        one.route?.provider ?? '-',
        routeCell(one),
      ]),
      none: 'No recipients.',
    }),
    lint.map(({ code, message: text }) => `Warning: ${text} (${code})`).join('\n'),
    (message?.headers ?? []).map(({ name, value }) => facts([[`${name}:`, value]])).join('\n'),
    'Nothing was sent.',
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

const OUTCOMES = {
  send: 'would be sent now',
  schedule: 'would be sent at its time',
  hold: 'would be put on hold: the sending domain is paused',
} as const;

export function senderText(cli: Cli, { dkim, spf, dmarc }: AuthenticationFinding): string {
  const rows = [
    ...dkim.map((one) => ['DKIM', `${one.selector}._domainkey.${one.domain}`, one] as const),
    ['SPF', spf.domain, spf] as const,
    ['DMARC', dmarc.domain ? `${dmarc.domain} (p=${dmarc.policy})` : '-', dmarc] as const,
  ];
  return table(cli, {
    columns: [
      'CHECK',
      { heading: 'RECORD', cut: 1 },
      'RESULT',
      { heading: 'PROBLEM', wraps: true },
    ],
    rows: rows.map(([check, record, { verdict, problem }]) => [
      check,
      record,
      verdict,
      problem ?? '',
    ]),
    none: '',
  });
}

function routeCell({ suppression, route }: DryRun['recipients'][number]): string {
  if (suppression) return `suppressed (${suppression.reason})`;
  return route ? routeText(route) : '-';
}

export function routeText({ verdict, problem, mx }: RouteFinding): string {
  if (verdict !== 'found') return `${verdict}: ${problem}`;
  return mx
    .map(({ host, preference, tls }) => `${preference} ${host} (TLS ${tls.mode})`)
    .join(', ');
}
