/**
 * The verdict on a webhook: whether it works, the start of its failures, the response of the receiver, and the next
 * step.
 */
import type { ReactNode } from 'react';
import type { Result } from '../../api/operations.ts';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { dayTime } from '../../lib/time.ts';
import { useAction } from './use-action.ts';
import { Time } from '../../ui/time.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { answerInWords, stateOf } from './responses.ts';

export type Statistics = Result<'getWebhookStatistics'>;

/** More are not counted. */
const PENDING_MAX = 10_000;

/** "1,204", or "more than 10,000". */
export function pendingInWords(pending: number): string {
  const shown = Math.min(pending, PENDING_MAX).toLocaleString();
  return pending > PENDING_MAX ? `more than ${shown}` : shown;
}

type Props = { webhook: Webhook; statistics: Statistics | undefined };

export function WebhookVerdict(props: Props & { onReplay: () => void }): ReactNode {
  const state = stateOf(props.webhook);
  if (state === 'disabled') return <Disabled webhook={props.webhook} />;
  return state === 'failing' ? <Failing {...props} /> : <Working statistics={props.statistics} />;
}

function Failing({ webhook, statistics, onReplay }: Props & { onReplay: () => void }): ReactNode {
  const may = useMay();
  const { last_failure: last, failures, failing_since: since } = webhook;
  const title = last === null ? 'the receiver fails' : `the receiver ${answerInWords(last)}`;
  return (
    <Verdict
      tone="bad"
      title={
        <>
          Failing{since && ` since ${dayTime(since)}`}: {title}
        </>
      }
      action={
        <>
          {may('replayWebhookDelivery') && <RetryOne webhook={webhook} statistics={statistics} />}
          {may('replayWebhook') && (
            <Button look="quiet" onClick={onReplay}>
              Replay events
            </Button>
          )}
        </>
      }
    >
      <p>
        {failures.toLocaleString()} {failures === 1 ? 'attempt' : 'attempts in a row'} failed
        {last && (
          <>
            , the last one <Time at={last.at} />
          </>
        )}
        . {statistics && <Waiting webhook={webhook} statistics={statistics} />}
      </p>
    </Verdict>
  );
}

function Waiting({ webhook, statistics }: { webhook: Webhook; statistics: Statistics }): ReactNode {
  const { pending, next_attempt_at: next } = statistics;
  const at = webhook.suspended_until ?? next;
  if (pending === 0) return 'No event waits.';
  return (
    <>
      {pending === 1 ? 'One event waits' : `${capitalized(pendingInWords(pending))} events wait`}{' '}
      and none is lost: each is retried for 3 days.
      {at !== null && (
        <>
          {' '}
          The next attempt is{' '}
          <b>
            <Time at={at} />
          </b>
          .
        </>
      )}{' '}
      Once the receiver answers 2xx again, everything pending is sent.
    </>
  );
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Tries a delivery that failed at once, which also ends the suspension of the webhook. */
function RetryOne({ webhook, statistics }: Props): ReactNode {
  const api = useApi();
  const reload = useReload();
  const { run, isRunning, failure } = useAction();
  const deliveryId = statistics?.failures[0]?.delivery_id;
  if (deliveryId === undefined) return null;
  const retry = async (): Promise<void> => {
    await api.call('replayWebhookDelivery', {
      path: { id: webhook.id, delivery_id: deliveryId },
    });
    await reload('getWebhook', { id: webhook.id });
  };
  return (
    <>
      <Button look="primary" disabled={isRunning} onClick={() => run(retry)}>
        Retry one now
      </Button>
      {failure !== null && (
        <span role="alert" className="text-sm text-bad">
          {failure}
        </span>
      )}
    </>
  );
}

function Disabled({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const may = useMay();
  const reload = useReload();
  const { run, isRunning, failure } = useAction();
  const enable = async (): Promise<void> => {
    await api.call('updateWebhook', { path: { id: webhook.id }, body: { status: 'enabled' } });
    await reload('listWebhooks');
  };
  return (
    <Verdict
      tone={webhook.disabled_reason === null ? 'quiet' : 'bad'}
      title="Disabled: it receives no events"
      action={
        may('updateWebhook') && (
          <Button look="primary" disabled={isRunning} onClick={() => run(enable)}>
            Enable
          </Button>
        )
      }
    >
      <p>
        {webhook.disabled_reason ??
          'This webhook was disabled in the dashboard or through the API.'}{' '}
        {webhook.last_failure && `The receiver ${answerInWords(webhook.last_failure)}.`}
      </p>
      <p>Enabling resets the failure count. Missed events are not sent later.</p>
      {failure !== null && (
        <p role="alert" className="text-bad">
          {failure}
        </p>
      )}
    </Verdict>
  );
}

/** Without failures. Earlier failures are in the list of failures. */
function Working({ statistics }: { statistics: Statistics | undefined }): ReactNode {
  if (statistics === undefined) return null;
  const { delivered, failed, waiting } = statistics;
  if (delivered + failed + waiting === 0) {
    return (
      <Verdict tone="open" title="Enabled: no event in the last 24 hours">
        <p>Send a test event to see how your receiver answers.</p>
      </Verdict>
    );
  }
  if (failed === 0)
    return <Verdict tone="good" title="Working: every attempt of the last 24 hours succeeded" />;
  const ended = (delivered + failed).toLocaleString();
  return (
    <Verdict tone="good" title="Working again">
      <p>
        {failed.toLocaleString()} of {ended} deliveries failed in the last 24 hours.
      </p>
    </Verdict>
  );
}
