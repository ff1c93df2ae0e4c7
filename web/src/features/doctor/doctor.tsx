/** The newest report of the doctor for each node: problems that stop or hurt mail, their meaning and their remedies. */
import { useQuery } from '@tanstack/react-query';
import { CircleCheck, CircleQuestionMark, CircleX, Stethoscope, TriangleAlert } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Doctor } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { AllowedScreen } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { ShareBar } from '../../ui/share-bar.tsx';
import { Empty, PageSkeleton, Problem, sentenceOf } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { Findings } from './doctor-findings.tsx';

type Node = Doctor['nodes'][number];

const REFRESH_MS = 30_000;
const REFRESH_OFTEN_MS = 1_000;

export function DoctorScreen(): ReactNode {
  return (
    <AllowedScreen to="getDoctor" title="Doctor">
      <Screen />
    </AllowedScreen>
  );
}

/** A service has no node in the list for some seconds after its start. */
const refreshMs = (nodes: readonly Node[]): number =>
  nodes.length === 0 || nodes.some(isBusy) ? REFRESH_OFTEN_MS : REFRESH_MS;

const isBusy = ({ is_requested: isRequested, running }: Node): boolean =>
  isRequested || running !== null;

function Screen(): ReactNode {
  const api = useApi();
  const doctor = useQuery({
    ...api.query('getDoctor'),
    refetchInterval: ({ state }) => refreshMs(state.data?.nodes ?? []),
  });
  const nodes = doctor.data?.nodes ?? [];
  const isChecked = nodes.some(({ finished_at: at }) => at !== null);
  const isRunning = nodes.some(isBusy);
  return (
    <>
      <PageHead
        title="Doctor"
        about="Problems that stop or hurt mail on your machines, with remedies."
        primary={(isChecked || isRunning) && <RunButton isChecked={isChecked} isBusy={isRunning} />}
      />
      {(doctor.isPending || doctor.data?.nodes.length === 0) && <PageSkeleton />}
      {doctor.isError && <Problem error={doctor.error} retry={() => void doctor.refetch()} />}
      <PageBody>
        {nodes.map((node) => (
          <NodeReport
            key={node.id}
            node={node}
            isOnly={nodes.length === 1}
            action={!isChecked && !isRunning && <RunButton isChecked={false} isBusy={false} />}
          />
        ))}
      </PageBody>
    </>
  );
}

function RunButton({ isChecked, isBusy: isRunning }: { isChecked: boolean; isBusy: boolean }) {
  const api = useApi();
  const reload = useReload();
  const [state, setState] = useState<{ isSending: boolean; failure: string | null }>({
    isSending: false,
    failure: null,
  });
  const run = async (): Promise<void> => {
    setState({ isSending: true, failure: null });
    try {
      await api.call('runDoctor');
      await reload('getDoctor');
      setState({ isSending: false, failure: null });
    } catch (error) {
      setState({ isSending: false, failure: sentenceOf(error) });
    }
  };
  return (
    <>
      {state.failure !== null && (
        <p role="alert" className="text-sm text-bad">
          {state.failure}
        </p>
      )}
      <Button look="primary" disabled={state.isSending || isRunning} onClick={() => void run()}>
        {isRunning ? 'Running' : isChecked ? 'Run again' : 'Run the doctor'}
      </Button>
    </>
  );
}

/** @param props.action runs the doctor, on a node that has no report while the page has no other button for it */
function NodeReport(props: { node: Node; isOnly: boolean; action: ReactNode }): ReactNode {
  const { node, isOnly, action } = props;
  const { host, finished_at: finishedAt, checks, findings } = node;
  return (
    <section aria-label={host} className="grid grid-cols-1 gap-6">
      {!isOnly && <h2 className="-mb-4 font-semibold break-all">{host}</h2>}
      {finishedAt !== null && <DoctorVerdict checks={checks} finishedAt={finishedAt} />}
      {isBusy(node) && <Progress node={node} />}
      {finishedAt === null && !isBusy(node) && (
        <Card
          wide={
            <Empty title="The doctor has not run yet" icon={Stethoscope} action={action}>
              <p>
                It checks network, DNS, machine, database, ports, backups and sending domains. It
                changes nothing and sends no mail.
              </p>
            </Empty>
          }
        />
      )}
      <Findings findings={findings} checks={checks} />
    </section>
  );
}

const VERDICTS = [
  ['red', 'bad', CircleX, 'Something stops or loses mail'],
  ['yellow', 'wait', TriangleAlert, 'Something hurts delivery, or soon will'],
  ['unknown', 'quiet', CircleQuestionMark, 'Some checks had no result'],
  ['green', 'good', CircleCheck, 'No problems found'],
] as const;

/** Words after a number of checks: 1, and any other. */
const COUNTED = {
  red: ['stops mail', 'stop mail'],
  yellow: ['hurts delivery', 'hurt delivery'],
  unknown: ['no result', 'no result'],
  green: ['no problems', 'no problems'],
} as const;

function DoctorVerdict(props: { checks: Node['checks']; finishedAt: string }): ReactNode {
  const { checks, finishedAt } = props;
  const verdict = VERDICTS.find(([level]) => checks[level] > 0) ?? VERDICTS[3];
  const [, tone, icon, title] = verdict;
  const parts = VERDICTS.map(([level, toneOf, Icon]) => ({
    tone: toneOf,
    value: checks[level],
    label: COUNTED[level][checks[level] === 1 ? 0 : 1],
    Icon,
  }));
  return (
    <Verdict tone={tone} icon={icon} title={title} isWide>
      <div className="space-y-2.5 pt-1.5">
        <ShareBar size="big" parts={parts} />
        <ul aria-label="Checks" className="flex flex-wrap gap-x-5 gap-y-1 text-sm">
          {parts
            .filter(({ value }) => value > 0)
            .map(({ tone: colour, value, label, Icon }) => (
              <li key={label} data-tone={colour} className="inline-flex items-center gap-1.5">
                <Icon size={14} aria-hidden className="shrink-0 text-(--tone)" />
                <span>
                  <span className="font-medium tabular-nums">{value}</span> {label}
                </span>
              </li>
            ))}
          <li className="text-muted sm:ml-auto">
            Checked <Time at={finishedAt} />
          </li>
        </ul>
      </div>
    </Verdict>
  );
}

function Progress({ node: { running } }: { node: Node }): ReactNode {
  const { checks_ended: ended, checks_total: total } = running ?? {
    checks_ended: 0,
    checks_total: 1,
  };
  return (
    <Verdict tone="open" icon={Stethoscope} title="The doctor is running" isWide>
      <div aria-hidden className="my-1.5 h-1.5 overflow-hidden rounded-full bg-hover">
        <div
          className="h-full rounded-full bg-accent"
          style={{ width: `${(100 * ended) / total}%` }}
        />
      </div>
      <p>
        {running === null
          ? 'The first checks begin in a moment.'
          : `${ended} of ${total} checks have ended`}
      </p>
    </Verdict>
  );
}
