/**
 * Findings as cards: a high one takes the full width, a medium one half, a low one a line. Each has its figure, since
 * when it holds, who can act, one action, and a menu to snooze it for all members of the project.
 */
import { useNavigate } from '@tanstack/react-router';
import {
  Gauge,
  Globe,
  HardDrive,
  Info,
  type LucideIcon,
  OctagonX,
  ServerCog,
  TrendingUp,
  Webhook,
} from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { useApi } from '../../../api/scope.ts';
import { ButtonLink } from '../../../ui/button.tsx';
import { Time } from '../../../ui/time.tsx';
import { Tile } from '../../../ui/verdict.tsx';
import type { Action, Finding } from './findings.ts';
import { SnoozeMenu, Snoozed } from './snoozes.tsx';
import type { Attention } from './use-findings.ts';

const ICONS: Readonly<Record<Finding['kind'], LucideIcon>> = {
  hold: OctagonX,
  condition: ServerCog,
  domain: Globe,
  webhook: Webhook,
  provider: Gauge,
  storage: HardDrive,
  rate: TrendingUp,
};

export function FindingCards({ attention }: { attention: Attention }): ReactNode {
  const { findings, snoozed } = attention;
  const urgent = findings.filter(({ weight }) => weight !== 'low');
  const low = findings.filter(({ weight }) => weight === 'low');
  if (findings.length + snoozed.length === 0) return null;
  return (
    <section aria-labelledby="findings" className="grid gap-3">
      <header className="flex flex-wrap items-baseline gap-x-3">
        <h2 id="findings" className="font-semibold">
          Findings
        </h2>
        <p className="text-sm text-muted">{countText(urgent.length, low.length)}</p>
      </header>
      {urgent.length > 0 && (
        <ul className="grid grid-cols-1 gap-3 md:grid-cols-2">
          {urgent.map((finding, index) => (
            <FindingCard key={finding.id} finding={finding} isFirst={index === 0} />
          ))}
        </ul>
      )}
      {low.length > 0 && <LowFindings findings={low} />}
      <Snoozed snoozed={snoozed} />
    </section>
  );
}

function countText(urgent: number, low: number): string {
  const parts = [
    urgent > 0 && `${urgent} ${urgent === 1 ? 'needs' : 'need'} somebody`,
    low > 0 && `${low} can wait`,
  ];
  return parts.filter((part) => part !== false).join(', ');
}

function FindingCard({ finding, isFirst }: { finding: Finding; isFirst: boolean }): ReactNode {
  const { kind, weight, tone, title, detail, figure, since, owner, action } = finding;
  const isHigh = weight === 'high';
  return (
    <li
      data-tone={tone}
      className={`flex min-w-0 flex-wrap items-center gap-x-4 gap-y-3 rounded-card border bg-surface p-4 ${
        isHigh
          ? 'border-[color-mix(in_oklab,var(--tone)_35%,var(--color-line))] md:col-span-2'
          : 'border-line'
      }`}
    >
      <div className="flex min-w-[min(100%,17rem)] grow basis-64 gap-3">
        <Tile icon={ICONS[kind]} tone={tone} />
        <div className="min-w-0">
          <h3 className={`font-semibold break-words ${isHigh ? '' : 'text-sm'}`}>{title}</h3>
          {detail && <p className="text-sm break-words text-muted">{detail}</p>}
          <p className="mt-0.5 text-xs text-muted">
            {since && (
              <>
                Since <Time at={since} /> ·{' '}
              </>
            )}
            For: {owner}
          </p>
        </div>
      </div>
      {figure && (
        <p className="flex items-baseline gap-1.5 whitespace-nowrap">
          <span className={`text-2xl font-semibold tabular-nums ${isHigh ? 'text-(--tone)' : ''}`}>
            {figure.value}
          </span>
          <span className="text-xs text-muted">{figure.unit}</span>
        </p>
      )}
      <div className="ml-auto flex items-center gap-1">
        {action && <ActionLink action={action} isPrimary={isHigh && isFirst} />}
        <SnoozeMenu finding={finding} />
      </div>
    </li>
  );
}

function ActionLink({ action, isPrimary }: { action: Action; isPrimary: boolean }): ReactNode {
  const { scope } = useApi();
  return (
    <ButtonLink
      to={action.to}
      params={'id' in action ? { ...scope, id: action.id } : scope}
      search={'search' in action ? action.search : {}}
      look={isPrimary ? 'primary' : 'plain'}
    >
      {action.label}
    </ButtonLink>
  );
}

const LOW_SHOWN = 2;

function LowFindings({ findings }: { findings: readonly Finding[] }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  const { scope } = useApi();
  const shown = isOpen ? findings : findings.slice(0, LOW_SHOWN);
  const follow = (action: Action): void =>
    void navigate({
      to: action.to,
      params: 'id' in action ? { ...scope, id: action.id } : scope,
      search: 'search' in action ? action.search : {},
    });
  return (
    <div className="text-sm text-muted">
      <ul className="space-y-1">
        {shown.map((finding) => (
          <li key={finding.id} className="flex items-center gap-2">
            <Info size={15} aria-hidden className="shrink-0" />
            <span className="min-w-0 grow break-words">{finding.title}</span>
            {finding.action && (
              <button
                type="button"
                className="link shrink-0"
                onClick={() => follow(finding.action!)}
              >
                {finding.action.label}
              </button>
            )}
            <SnoozeMenu finding={finding} />
          </li>
        ))}
      </ul>
      {findings.length > LOW_SHOWN && (
        <button type="button" className="link mt-1" onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show fewer' : `Show all ${findings.length}`}
        </button>
      )}
    </div>
  );
}
