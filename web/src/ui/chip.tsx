/** A state as icon, word and colour. */
import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { type Tone, TONE_ICONS } from './tone.ts';

const SIZES = {
  normal: 'h-5 gap-1 text-xs leading-5 [&_svg]:size-3.25',
  big: 'h-6 gap-1.5 text-sm leading-6 [&_svg]:size-3.5',
} as const;

/** @param props.icon replaces the icon of the tone */
export function Chip(props: {
  tone: Tone;
  icon?: LucideIcon;
  size?: keyof typeof SIZES;
  title?: string;
  children: ReactNode;
}): ReactNode {
  const { tone, icon: Icon = TONE_ICONS[tone], size = 'normal' } = props;
  return (
    <span
      data-tone={tone}
      title={props.title}
      className={`inline-flex max-w-full items-baseline align-middle font-medium whitespace-nowrap text-(--tone) ${SIZES[size]}`}
    >
      <Icon strokeWidth={2} aria-hidden className="shrink-0 self-center" />
      <span className="min-w-0 truncate first-letter:uppercase">{props.children}</span>
    </span>
  );
}
