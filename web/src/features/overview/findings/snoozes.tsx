/** Snoozes a finding for all members of the project, and shows the snoozed ones, by whom and until when. */
import { Menu } from '@base-ui/react/menu';
import { AlarmClock, AlarmClockOff } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { useReload } from '../../../api/list.ts';
import { useApi } from '../../../api/scope.ts';
import { serverNowMs } from '../../../lib/clock.ts';
import { absoluteTime } from '../../../lib/time.ts';
import { Allowed } from '../../../ui/allowed.tsx';
import { Button, buttonLook } from '../../../ui/button.tsx';
import { MENU_ITEM, MENU_POPUP } from '../../../ui/more-menu.tsx';
import { sentenceOf } from '../../../ui/states.tsx';
import { useOfferUndo } from '../../../ui/undo.tsx';
import type { Finding } from './findings.ts';
import type { Attention } from './use-findings.ts';

const HOUR_MS = 3_600_000;

const TIMES = [
  ['for an hour', () => serverNowMs() + HOUR_MS],
  ['until tomorrow, 9:00', () => morningIn(1)],
  ['for a week', () => morningIn(7)],
  ['for 30 days', () => serverNowMs() + 30 * 24 * HOUR_MS - HOUR_MS],
] as const;

function morningIn(days: number): number {
  const date = new Date(serverNowMs());
  date.setDate(date.getDate() + days);
  return date.setHours(9, 0, 0, 0);
}

export function SnoozeMenu(props: { finding: Finding; size?: 'normal' | 'small' }): ReactNode {
  const { finding, size = 'normal' } = props;
  const api = useApi();
  const reload = useReload();
  const offerUndo = useOfferUndo();
  const [failure, setFailure] = useState<string | null>(null);
  const path = { id: finding.id };
  const snooze = async (untilMs: number): Promise<void> => {
    try {
      const until = new Date(untilMs).toISOString();
      await api.call('snoozeFinding', { path, body: { until } });
      await reload('listSnoozes');
      offerUndo({
        text: 'The finding is snoozed for all members of the project.',
        undo: async () => {
          await api.call('endSnooze', { path });
          await reload('listSnoozes');
        },
      });
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  return (
    <Allowed to="snoozeFinding">
      {failure !== null && (
        <span role="alert" className="text-xs text-bad">
          {failure}
        </span>
      )}
      <Menu.Root>
        <Menu.Trigger
          aria-label={`Snooze: ${finding.title}`}
          className={buttonLook({ look: 'quiet', size })}
        >
          <AlarmClock size={15} aria-hidden />
          Snooze
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner className="z-60" align="end" sideOffset={4}>
            <Menu.Popup className={MENU_POPUP}>
              {TIMES.map(([label, until]) => (
                <Menu.Item key={label} onClick={() => void snooze(until())} className={MENU_ITEM}>
                  Snooze {label}
                </Menu.Item>
              ))}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
    </Allowed>
  );
}

export function Snoozed({ snoozed }: Pick<Attention, 'snoozed'>): ReactNode {
  const api = useApi();
  const reload = useReload();
  if (snoozed.length === 0) return null;
  const end = async (id: string): Promise<void> => {
    await api.call('endSnooze', { path: { id } });
    await reload('listSnoozes');
  };
  return (
    <details className="text-sm text-muted">
      <summary className="w-fit">
        {snoozed.length} snoozed {snoozed.length === 1 ? 'finding' : 'findings'}
      </summary>
      <ul className="mt-2 space-y-2">
        {snoozed.map(({ finding, snooze }) => (
          <li key={finding.id} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <AlarmClockOff size={15} aria-hidden className="shrink-0" />
            <span className="min-w-0 grow basis-64 break-words">
              {finding.title} Snoozed by {snooze.by?.name ?? 'a removed member'} until{' '}
              {absoluteTime(snooze.until)}.
            </span>
            <Allowed to="endSnooze">
              <Button size="small" onClick={() => void end(finding.id)}>
                Show again
              </Button>
            </Allowed>
          </li>
        ))}
      </ul>
    </details>
  );
}
