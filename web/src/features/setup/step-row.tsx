/** One step: its state, a summary, and below it the actions. */
import { Check, ChevronDown, Circle, type LucideIcon, X } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { Tone } from '../../ui/tone.ts';
import type { Step, StepState } from './steps.ts';

/** A step without an icon is marked by its number. */
const MARKS: Readonly<Record<StepState, { tone: Tone; icon?: LucideIcon; word: string }>> = {
  done: { tone: 'good', icon: Check, word: 'Done' },
  todo: { tone: 'quiet', word: 'To do' },
  wrong: { tone: 'bad', icon: X, word: 'Needs you' },
  waits: { tone: 'quiet', word: 'Waits' },
};

export function StepRow(props: {
  step: Step;
  /** Null for an optional step, which may be done at any time. */
  number: number | null;
  isOpenAtFirst: boolean;
  isNext: boolean;
  /** The address of the page names this step, also while the page is open. */
  isLinked: boolean;
  children: ReactNode;
}): ReactNode {
  const { step, number, isNext, isLinked, children } = props;
  const [isOpen, setOpen] = useState(props.isOpenAtFirst);
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!isLinked) return;
    setOpen(true);
    row.current?.scrollIntoView({ block: 'nearest' });
  }, [isLinked]);
  const { tone, icon, word } = MARKS[step.state];
  const Icon = icon ?? (number === null ? Circle : null);
  return (
    <li ref={row} className="border-line not-first:border-t">
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary
          aria-current={isNext ? 'step' : undefined}
          className="own-chevron flex min-h-12 flex-wrap items-center gap-x-3 gap-y-0.5 px-(--page-x) py-2.5 text-sm hover:bg-hover"
        >
          <span
            data-tone={isNext && tone === 'quiet' ? 'accent' : tone}
            className={`inline-grid size-6 shrink-0 place-items-center rounded-full text-xs font-semibold tabular-nums ${isNext && tone === 'quiet' ? 'bg-accent text-on-accent' : 'bg-(--tone-tint) text-(--tone)'}`}
          >
            {Icon ? <Icon size={14} strokeWidth={2.25} aria-hidden /> : number}
            <span className="sr-only">{word}</span>
          </span>
          <h2 className="min-w-0 grow basis-40 font-medium break-words">
            {number !== null && <span className="sr-only">{number}. </span>}
            {step.title}
          </h2>
          <span className="text-muted max-sm:basis-full max-sm:pl-9">{step.summary}</span>
          <ChevronDown
            size={16}
            aria-hidden
            className={`shrink-0 text-muted transition-transform max-sm:hidden ${isOpen ? 'rotate-180' : ''}`}
          />
        </summary>
        {isOpen && (
          <div className="space-y-3 px-(--page-x) pt-1 pb-5 sm:pl-[calc(var(--page-x)+2.25rem)]">
            {children}
          </div>
        )}
      </details>
    </li>
  );
}
