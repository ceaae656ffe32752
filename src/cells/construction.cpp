#include "cells/construction.h"

namespace nru {
namespace {

thread_local Construction now = Construction::whole;

}  // namespace

ConstructionScope::ConstructionScope(Construction what) : before_(now) { now = what; }
ConstructionScope::~ConstructionScope() { now = before_; }

Construction ConstructionScope::current() { return now; }

}  // namespace nru
