/** From nothing to live mail, in steps that the service checks. Completed steps are folded. */
import { useSearch } from '@tanstack/react-router';
import { BookOpen, ListChecks } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { useApi } from '../../api/scope.ts';
import { buttonLook } from '../../ui/button.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { DomainStep } from './domain-step.tsx';
import { FirstEmailStep, KeyStep } from './first-email-step.tsx';
import { LiveEmailStep } from './live-email-step.tsx';
import { AlertsStep, BackupsStep, BouncesStep, ServerStep, WebhookStep } from './other-steps.tsx';
import { StepRow } from './step-row.tsx';
import { type Facts, progressOf, type Step, type StepId, stepsOf } from './steps.ts';
import { useSetup } from './use-setup.ts';

export function SetupScreen(): ReactNode {
  const { scope } = useApi();
  const { facts, isPending, error } = useSetup();
  return (
    <>
      <PageHead
        title="Setup"
        about="From nothing to your first live email. The service checks each step."
        secondary={
          <a href="/docs/going-live" target="_blank" rel="noreferrer" className={buttonLook()}>
            <BookOpen size={15} aria-hidden /> Guide
          </a>
        }
      />
      <PageBody>
        {error !== null && <Problem error={error} />}
        {isPending && error === null && <RowsSkeleton rows={6} />}
        {!isPending && <Checklist key={scope.project} facts={facts} />}
      </PageBody>
    </>
  );
}

const GROUP = 'overflow-hidden rounded-card border border-line bg-surface [--page-x:1rem]';

function Checklist({ facts }: { facts: Facts }): ReactNode {
  const steps = stepsOf(facts);
  const progress = progressOf(steps);
  const { step: linked } = useSearch({ from: '/$project/$environment/setup' });
  // The step that is next at first stays open when it is done, so that its result is seen.
  const [first] = useState(() => linked ?? progress.next?.id);
  const [key, setKey] = useState<string | null>(null);
  const required = steps.filter(({ isOptional }) => !isOptional);
  const optional = steps.filter(({ isOptional }) => isOptional);
  const rowOf = (step: Step, number: number | null): ReactNode => (
    <StepRow
      key={step.id}
      step={step}
      number={number}
      isOpenAtFirst={step.id === first || step.state === 'wrong'}
      isNext={step.id === progress.next?.id}
      isLinked={step.id === linked}
    >
      <Body id={step.id} facts={facts} secret={key} onSecret={setKey} />
    </StepRow>
  );
  const tone = progress.next === null ? 'good' : progress.isWrong ? 'bad' : 'open';
  return (
    <>
      <Verdict tone={tone} icon={ListChecks} title={progress.title} isWide>
        <Bar done={progress.done} total={progress.total} />
        <p>{sentenceOf(progress.next, facts)}</p>
      </Verdict>
      <ol aria-label="Required steps" className={GROUP}>
        {required.map((step, index) => rowOf(step, index + 1))}
      </ol>
      <div className="space-y-2">
        <p className="text-xs font-medium text-muted">Optional</p>
        <ul aria-label="Optional steps" className={GROUP}>
          {optional.map((step) => rowOf(step, null))}
        </ul>
      </div>
    </>
  );
}

function Bar({ done, total }: { done: number; total: number }): ReactNode {
  return (
    <div
      aria-hidden
      className="my-1.5 h-1.5 w-full max-w-none overflow-hidden rounded-full bg-hover"
    >
      <div
        className="h-full rounded-full bg-accent"
        style={{ width: `${(100 * done) / total}%` }}
      />
    </div>
  );
}

const SENTENCES: Readonly<Record<StepId, string>> = {
  server: 'The doctor checks port 25, names, DNS and certificates of this machine.',
  key: 'Applications send with a key. A key of the test environment delivers nothing.',
  first_email: 'Send one email in test. A simulator answers instead of mail servers.',
  domain: 'Publish the records of your domain, so that receivers accept its mail.',
  webhook: 'A webhook notifies your application of the delivery status of each email.',
  bounces: 'Bounces and complaints arrive at port 25 of this machine.',
  backups: 'A backup holds accepted mail, keys and settings.',
  alerts: 'The service notifies you when you have to act.',
  live_email: 'Send one live email to yourself, and follow its delivery.',
};

function sentenceOf(next: Step | null, { testEmail }: Facts): string {
  if (next === null) return 'Keep an eye on the overview, and read the reports of your domain.';
  const works =
    testEmail === undefined || next.id === 'first_email' ? '' : 'Sending in test works. ';
  return works + (next.state === 'wrong' ? `${next.summary}.` : SENTENCES[next.id]);
}

type BodyProps = {
  id: StepId;
  facts: Facts;
  /** A key that was created on this page, which is shown once. */
  secret: string | null;
  onSecret: (key: string) => void;
};

function Body({ id, facts, secret, onSecret }: BodyProps): ReactNode {
  switch (id) {
    case 'server':
      return <ServerStep facts={facts} />;
    case 'key':
      return <KeyStep keys={facts.keys} secret={secret} onSecret={onSecret} />;
    case 'first_email':
      return <FirstEmailStep facts={facts} secret={secret} onSecret={onSecret} />;
    case 'domain':
      return <DomainStep domains={facts.domains} />;
    case 'webhook':
      return <WebhookStep facts={facts} />;
    case 'bounces':
      return <BouncesStep facts={facts} />;
    case 'backups':
      return <BackupsStep facts={facts} />;
    case 'alerts':
      return <AlertsStep facts={facts} />;
    case 'live_email':
      return <LiveEmailStep facts={facts} />;
  }
}
