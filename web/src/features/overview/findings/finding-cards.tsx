/**
 * Findings as cards: a high one takes the full width, a medium one half, a low one a line. Each has its figure, since
 * when it holds, who can act, one action, and a menu to snooze it for all members of the project. A single one that
 * needs action has no card, because the verdict is about it.
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
  const carded = urgent.length > 1 ? urgent : [];
  const highCount = carded.filter(({ weight }) => weight === 'high').length;
  const lastIndex = carded.length - 1;
  const hasOddRest = (carded.length - highCount) % 2 === 1;
  if (carded.length + low.length + snoozed.length === 0) return null;
  return (
    <section aria-label="Findings" className="grid grid-cols-1 gap-3">
      {carded.length + low.length > 0 && (
        <header className="flex flex-wrap items-baseline gap-x-3">
          <h2 className="font-semibold">Findings</h2>
          {low.length > 0 && <p className="text-sm text-muted">{low.length} can wait</p>}
        </header>
      )}
      {carded.length > 0 && (
        <ul className="grid grid-cols-1 gap-3 md:grid-cols-2">
          {carded.map((finding, index) => (
            <FindingCard
              key={finding.id}
              finding={finding}
              isFirst={index === 0}
              isAlone={index < highCount || (index === lastIndex && hasOddRest)}
            />
          ))}
        </ul>
      )}
      {low.length > 0 && <LowFindings findings={low} />}
      <Snoozed snoozed={snoozed} />
    </section>
  );
}

/** Beside another one the figure stands below the text; alone in its row it stands beside it. */
function FindingCard(props: { finding: Finding; isFirst: boolean; isAlone: boolean }): ReactNode {
  const { finding, isFirst, isAlone } = props;
  const { kind, weight, tone, title, detail, figure, since, owner } = finding;
  const isHigh = weight === 'high';
  const edge = isHigh
    ? 'border-[color-mix(in_oklab,var(--tone)_35%,var(--color-line))]'
    : 'border-line';
  return (
    <li
      data-tone={tone}
      className={`flex min-w-0 flex-col justify-between gap-x-6 gap-y-3 rounded-card border bg-surface p-4 ${edge} ${isAlone ? 'md:col-span-2 md:flex-row md:items-center' : ''}`}
    >
      <div className="flex min-w-0 gap-3">
        <Tile icon={ICONS[kind]} tone={tone} />
        <div className="min-w-0">
          <h3
            className={`font-semibold text-pretty [overflow-wrap:anywhere] ${isHigh ? '' : 'text-sm'}`}
          >
            {title}
          </h3>
          {detail && (
            <p className="max-w-[84ch] text-sm text-pretty [overflow-wrap:anywhere] text-muted">
              {detail}
            </p>
          )}
          <p className="mt-0.5 text-xs text-muted">
            {since && (
              <>
                Since <Time at={since} /> ·{' '}
              </>
            )}
            For {owner}
          </p>
        </div>
      </div>
      <div className="flex shrink-0 flex-wrap items-center gap-x-4 pl-11 md:gap-x-6">
        <FigureOf finding={finding} />
        <span className={`flex items-center gap-1 ${figure || isAlone ? 'md:ml-auto' : ''}`}>
          <FindingActions finding={finding} isPrimary={isHigh && isFirst} />
        </span>
      </div>
    </li>
  );
}

function FigureOf({ finding: { figure, weight } }: { finding: Finding }): ReactNode {
  if (!figure) return null;
  return (
    <p className="flex items-baseline gap-1.5 whitespace-nowrap">
      <span
        className={`text-2xl font-semibold tabular-nums ${weight === 'high' ? 'text-(--tone)' : ''}`}
      >
        {figure.value}
      </span>
      <span className="text-xs text-muted">{figure.unit}</span>
    </p>
  );
}

export function FindingActions(props: { finding: Finding; isPrimary: boolean }): ReactNode {
  const { finding, isPrimary } = props;
  return (
    <>
      {finding.action && <ActionLink action={finding.action} isPrimary={isPrimary} />}
      <SnoozeMenu finding={finding} />
    </>
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
          <li key={finding.id} className="flex items-start gap-2">
            <Info size={15} aria-hidden className="mt-1.5 shrink-0" />
            <div className="flex min-w-0 grow flex-col gap-x-4 pt-1 sm:flex-row sm:justify-between">
              <span className="max-w-[110ch] min-w-0 text-pretty break-words">{finding.title}</span>
              {finding.action && (
                <button
                  type="button"
                  className="link shrink-0 self-start"
                  onClick={() => follow(finding.action!)}
                >
                  {finding.action.label}
                </button>
              )}
            </div>
            <SnoozeMenu finding={finding} size="small" />
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
