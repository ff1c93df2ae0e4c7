/** The steps that the service decides by itself: its machine, bounces, backups, alerts, and the webhook. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { DoctorFinding } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { inWords } from '../../lib/time.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Code } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { type Facts, findingsOf } from './steps.ts';
import { useAction, useReloadIn } from './use-action.tsx';

type Props = { facts: Facts };

export function ServerStep({ facts }: Props): ReactNode {
  const found = findingsOf(facts.doctor);
  return (
    <>
      <Findings
        findings={found}
        right="Outgoing port 25 is open, and name, address and DNS match."
      />
      <RunDoctor facts={facts} />
    </>
  );
}

export function BouncesStep({ facts }: Props): ReactNode {
  const found = findingsOf(facts.doctor, ['inbound_port', 'open_relay']);
  return (
    <>
      <Findings findings={found} right="The port for bounces answers, and relays for nobody." />
      <RunDoctor facts={facts} />
    </>
  );
}

const LEVELS = {
  red: { tone: 'bad', word: 'Stops mail' },
  yellow: { tone: 'wait', word: 'Advice' },
  unknown: { tone: 'quiet', word: 'Unknown' },
  green: { tone: 'good', word: 'Right' },
} as const;

/** Problems with what to do. All that is right, and all that has no result, is one sentence. */
function Findings({ findings, right }: { findings: readonly DoctorFinding[]; right: string }) {
  const problems = onceEach(findings.filter(({ level }) => level === 'red' || level === 'yellow'));
  const unknown = findings.filter(({ level }) => level === 'unknown').length;
  if (findings.length === 0) {
    return <p className="text-sm text-muted">The check changes nothing.</p>;
  }
  return (
    <>
      {problems.length === 0 && <p className="text-sm text-muted">{right}</p>}
      <ul className="space-y-4 text-sm empty:hidden">
        {problems.map((finding) => (
          <li key={`${finding.check} ${finding.subject} ${finding.found}`} className="space-y-1">
            <Chip tone={LEVELS[finding.level].tone}>{LEVELS[finding.level].word}</Chip>
            <p className="font-medium break-words">{finding.found}</p>
            {finding.meaning !== null && <p className="text-muted">{finding.meaning}</p>}
            {finding.remedy !== null && <p className="break-words">{finding.remedy}</p>}
            {finding.command !== null && <Code text={finding.command} what="command" />}
          </li>
        ))}
      </ul>
      {unknown > 0 && (
        <p className="text-sm text-muted">
          {unknown === 1 ? '1 check had no result.' : `${unknown} checks had no result.`}
        </p>
      )}
    </>
  );
}

/** Several checks find the same when one thing is missing, such as the address of the machine. */
function onceEach(findings: readonly DoctorFinding[]): DoctorFinding[] {
  const byText = new Map(findings.map((one) => [`${one.found} ${one.remedy}`, one]));
  return [...byText.values()];
}

function RunDoctor({ facts: { doctor } }: Props): ReactNode {
  const { scope, call } = useApi();
  const reload = useReloadIn('live');
  const { run, isRunning, failure } = useAction(async () => {
    await call('runDoctor');
    await reload();
  });
  const nodes = doctor?.nodes ?? [];
  const isBusy = nodes.some(({ is_requested: asked, running }) => asked || running !== null);
  const at = nodes.find(({ finished_at: finished }) => finished !== null)?.finished_at;
  return (
    <div className="flex flex-wrap items-center gap-3 text-sm">
      <Allowed to="runDoctor">
        <Button
          look={at ? 'plain' : 'primary'}
          disabled={isRunning || isBusy || nodes.length === 0}
          onClick={run}
        >
          {isBusy ? 'The doctor runs' : at ? 'Check again' : 'Check this machine'}
        </Button>
      </Allowed>
      <Link to="/$project/$environment/doctor" params={scope} className="link">
        All checks
      </Link>
      {at && (
        <span className="text-muted">
          Checked <Time at={at} />
        </span>
      )}
      {failure}
    </div>
  );
}

export function WebhookStep({ facts: { webhooks } }: Props): ReactNode {
  const { scope } = useApi();
  return (
    <>
      <p className="max-w-prose text-sm text-muted">
        Your application gets a signed request when an email is delivered, bounces or is complained
        about.
      </p>
      <ul className="space-y-1 text-sm">
        {webhooks.map(({ id, url, failing_since: since }) => (
          <li key={id} className="flex items-baseline gap-2">
            <span className="w-15 shrink-0">
              <Chip tone={since === null ? 'good' : 'bad'}>
                {since === null ? 'Works' : 'Fails'}
              </Chip>
            </span>
            <span className="min-w-0 font-mono text-xs [overflow-wrap:anywhere]">{url}</span>
          </li>
        ))}
      </ul>
      <ButtonLink to="/$project/$environment/webhooks" params={scope}>
        {webhooks.length === 0 ? 'Add a webhook' : 'Show webhooks'}
      </ButtonLink>
    </>
  );
}

export function BackupsStep({ facts: { status } }: Props): ReactNode {
  const backup = status?.backup;
  return (
    <>
      {backup === null && (
        <p className="max-w-prose text-sm">
          The service makes no backups. Name a folder on another disk or a bucket, and restart it.
        </p>
      )}
      {backup && (
        <p className="max-w-prose text-sm break-words">
          {backup.problem ??
            (backup.age_seconds === null
              ? `The first backup goes to ${backup.to}.`
              : `The newest backup is ${inWords(backup.age_seconds)} old. Backups go to ${backup.to}.`)}
        </p>
      )}
      {backup === null && (
        <Code text="LETTERHAUS_BACKUP_TO=/mnt/backups/letterhaus" what="variable" />
      )}
      <Guide page="backup">Backups in the handbook</Guide>
    </>
  );
}

export function AlertsStep({ facts: { variables } }: Props): ReactNode {
  const address = variables?.find(({ name }) => name === 'LETTERHAUS_OPERATOR_ADDRESS');
  return (
    <>
      <p className="max-w-prose text-sm break-words">
        {address?.is_set
          ? `The service mails ${address.value} when an operator has to act, such as on a full disk or a provider that blocks it.`
          : 'Set an address that the service mails when an operator has to act: a full disk, a provider that blocks it, a certificate that expires.'}
      </p>
      {!address?.is_set && (
        <Code text="LETTERHAUS_OPERATOR_ADDRESS=you@example.com" what="variable" />
      )}
      <Guide page="monitoring">Monitoring in the handbook</Guide>
    </>
  );
}

function Guide({ page, children }: { page: string; children: ReactNode }): ReactNode {
  return (
    <a href={`/docs/${page}`} target="_blank" rel="noreferrer" className="link text-sm">
      {children}
    </a>
  );
}
