/**
 * The verdict of a page: the state, its start, its reason, and the one action that helps. Evidence follows below it.
 */
import type { LucideIcon } from 'lucide-react';
import { type ReactNode, useId } from 'react';
import { type Tone, TONE_ICONS } from './tone.ts';

/**
 * @param props.children the reason, in sentences
 * @param props.isWide the children take the whole width, like a bar
 * @param props.action a button, or several of which one is primary
 */
export function Verdict(props: {
  tone: Tone;
  title: ReactNode;
  icon?: LucideIcon;
  action?: ReactNode;
  isWide?: true;
  children?: ReactNode;
}): ReactNode {
  const { tone, icon: Icon = TONE_ICONS[tone], action, isWide, children } = props;
  const id = useId();
  const below = [children, action].filter(Boolean).length;
  return (
    <section
      aria-labelledby={id}
      data-tone={tone}
      className="grid shrink-0 grid-cols-[auto_minmax(0,1fr)] content-start gap-x-4 gap-y-1 rounded-card border border-[color-mix(in_oklab,var(--tone)_22%,var(--color-line))] bg-[color-mix(in_oklab,var(--tone-tint)_38%,var(--color-surface))] p-4 [--page-x:1rem] max-sm:gap-x-3"
    >
      <div className={['', 'sm:row-span-2', 'sm:row-span-3'][below]}>
        <Tile icon={Icon} tone={tone} />
      </div>
      <h2
        id={id}
        className={`text-lg font-semibold tracking-[-0.01em] text-balance break-words max-sm:self-center ${children || action ? '' : 'self-center'}`}
      >
        {props.title}
      </h2>
      {children && (
        <div
          className={`space-y-1 text-pretty break-words max-sm:col-span-2 ${isWide ? '' : 'max-w-[72ch]'}`}
        >
          {children}
        </div>
      )}
      {action && (
        <div className="mt-2 flex flex-wrap items-center gap-2 max-sm:col-span-2">{action}</div>
      )}
    </section>
  );
}

/** An icon on the tint of its tone. */
export function Tile({ icon: Icon, tone }: { icon: LucideIcon; tone: Tone | 'accent' }): ReactNode {
  return (
    <span
      data-tone={tone}
      aria-hidden
      className="inline-grid size-8 shrink-0 place-items-center rounded-lg bg-(--tone-tint) text-(--tone)"
    >
      <Icon size={18} strokeWidth={1.75} />
    </span>
  );
}
